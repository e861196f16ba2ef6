// The source that nvcc and NVRTC compile: the kernels of the ring that the command line names, or those of CKKS.
#ifdef BECALM_RNS
#include "rns/kernels.cuh"
#else
#include "kernels.cuh"
#endif
