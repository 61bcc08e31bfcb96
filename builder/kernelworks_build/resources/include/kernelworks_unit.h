// Included before every device source: gives the unit a function that is seen from outside, under a name of its own.
//
// nvcc names what is local to a unit after the first such function, and where there is none, after its process id.
// The linker drops the function: nothing calls it.
extern "C" __attribute__((visibility("hidden"))) void KERNELWORKS_UNIT(void) {}
