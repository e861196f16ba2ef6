// The features of a GPU that the kernels use, under one set of names for nvcc, NVRTC and the emulator. No header of CUDA is needed.
#pragma once
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned u32;
#define UNROLL _Pragma("unroll")
#define LOOP _Pragma("unroll 1")
#define LOOP_4 _Pragma("unroll 4")
#define KERNEL extern "C" __global__
#define INLINE_ON_GPU __device__ __forceinline__

template <class T>
__device__ __forceinline__ T* shared_memory() {
  extern __shared__ __align__(128) unsigned char becalm_shared[];
  return reinterpret_cast<T*>(becalm_shared);
}
/// A word that others change by atomic operations meanwhile.
__device__ __forceinline__ u64 read_atomic(const u64* at) {
  u64 word;
  asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
  return word;
}
/// bar.sync of `threads` threads, a multiple of 32; `id` from 1 to 15.
__device__ __forceinline__ void named_barrier(unsigned id, unsigned threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// d += a·b, 8×4 times 4×8, by the tensor cores and all lanes of a warp: lane 4i + q has a[i][q], b[q][i], d[i][2q] and
/// d[i][2q + 1]. Fused multiply-adds; the emulator takes them in the order of k.
__device__ __forceinline__ void multiply_8x8x4(double& d0, double& d1, double a, double b) {
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(d0), "+d"(d1)
      : "d"(a), "d"(b));
}
/// 16 bytes from global to shared memory, there when `await_copies` of this thread has returned.
__device__ __forceinline__ void copy_async(double2* to, const double2* from) {
  const u32 at = u32(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}
__device__ __forceinline__ void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
/// The clock of the multiprocessor.
__device__ __forceinline__ u64 clocks() {
  u64 now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
// No clusters: functions that would use them are not compiled to a kernel.
__device__ __forceinline__ unsigned cluster_rank() { return 0; }
__device__ __forceinline__ void cluster_arrive() {}
__device__ __forceinline__ void cluster_wait() {}
template <class T>
__device__ __forceinline__ T* map_shared(T* at, unsigned) {
  return at;
}
#else
__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/// The same place in the shared memory of another block of the cluster.
template <class T>
__device__ __forceinline__ T* map_shared(T* at, unsigned rank) {
  u64 mapped;
  asm("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(reinterpret_cast<u64>(at)), "r"(rank));
  return reinterpret_cast<T*>(mapped);
}
#endif
#else
#include "emulator.h"
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned u32;
#define UNROLL _Pragma("GCC unroll 64")
#define LOOP
#define LOOP_4
#define KERNEL
// The compiler of the emulator takes ten times as long over the exact kernels if it must inline every operation.
#define INLINE_ON_GPU __attribute__((noinline))
#endif

// Whether the barrier of this number is left out: the race check must then find the race. No other build has BECALM_PLANTS.
#ifdef BECALM_PLANTS
template <int NUMBER>
inline bool planted() {
  return emulator::plant == NUMBER;
}
#else
template <int NUMBER>
__device__ constexpr bool planted() {
  return false;
}
#endif
