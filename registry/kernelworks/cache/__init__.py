"""What this machine keeps beside the kernels themselves (`kernelworks.store`): proofs, records, locks, memories."""
