"""The namespace of loaded kernels: `kernelworks.loaded.<id>_<digest>`; `kernelworks.load` fills it."""
