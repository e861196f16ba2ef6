// The source that nvcc and NVRTC compile: the kernels of the ring that the command line names.
#include "kernels.cuh"
