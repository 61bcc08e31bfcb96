"""`kernel-registry`: a Hub for kernels on your own machine."""
