// The features of a GPU that the kernels use, under one set of names for nvcc, NVRTC and the emulator. No header of CUDA is needed.
#pragma once
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned u32;
#define UNROLL _Pragma("unroll")
#define LOOP _Pragma("unroll 1")
#define LOOP_2 _Pragma("unroll 2")
#define LOOP_4 _Pragma("unroll 4")
#define KERNEL extern "C" __global__
#define INLINE_ON_GPU __device__ __forceinline__
#define CONSTANT __constant__
// Whether the code is for one architecture and has its own instructions: PTX for all that come after has not.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_SPECIFIC__)
#define BECALM_OWN_CODE 1
#else
#define BECALM_OWN_CODE 0
#endif

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
/// d += a·b, signed bytes times unsigned ones, 16×32 times 32×8: lane 4g + q has rows g and g + 8 of a and column g of b, of each the
/// bytes 4q to 4q + 3 (a: x, y; b: b0) and 4q + 16 to 4q + 19 (a: z, w; b: b1), and d[g][2q], d[g][2q + 1], d[g + 8][2q], d[g + 8][2q + 1].
__device__ __forceinline__ void multiply_16x8x32(int* d, uint4 a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
/// 16 bytes from global to shared memory, there when `await_copies` of this thread has returned.
__device__ __forceinline__ void copy_async(double2* to, const double2* from) {
  const u32 at = u32(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}
__device__ __forceinline__ void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
/// The copies of this thread since the last call are a group.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until those of all groups but the last `LEFT` are there.
template <int LEFT>
__device__ __forceinline__ void await_copies_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
/// The clock of the multiprocessor.
__device__ __forceinline__ u64 clocks() {
  u64 now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
}
/// Stores past the first-level cache.
__device__ __forceinline__ void store_through(double2* at, double2 value) { __stcg(at, value); }
/// Loads what no kernel that runs writes and nobody reads again: it takes no place of the first-level cache.
__device__ __forceinline__ double2 load_once(const double2* at) {
  double2 value;
  asm volatile("ld.global.nc.L1::no_allocate.v2.f64 {%0, %1}, [%2];" : "=d"(value.x), "=d"(value.y) : "l"(at));
  return value;
}
__device__ __forceinline__ double load_once(const double* at) {
  double value;
  asm volatile("ld.global.nc.L1::no_allocate.f64 %0, [%1];" : "=d"(value) : "l"(at));
  return value;
}
/// Has the line brought to the second-level cache.
__device__ __forceinline__ void fetch_ahead(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }
/// The bits from the last to the first.
__device__ __forceinline__ u32 reversed(u32 x) { return __brev(x); }
// Flags in global memory, counters that start at 0 and that kernels which run at once raise and await.
/// The flag as it is; nothing is ordered by it.
__device__ __forceinline__ u32 read_flag(const u32* at) {
  u32 value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
/// Waits until a flag has come to `wanted`; a kernel that waits in vain ends with an error.
///
/// The reads are relaxed: one that acquires empties the first-level cache. So the memory model promises no order behind this.
/// The hardware gives it to reads that do not find an old value there: past the first-level cache (`__ldcg`), or by the
/// asynchronous proxy after `async_fence`.
__device__ __forceinline__ void await_flag(const u32* at, u32 wanted) {
  LOOP
  for (u32 tries = 0; read_flag(at) < wanted; tries++) {
    if (tries == 1u << 26) asm volatile("trap;");
  }
}
/// Raises a flag; whoever sees it sees what this thread, and those that it was in a barrier with, have written.
__device__ __forceinline__ void raise_flag(u32* at, u32 by) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(by) : "memory");
}
/// Raises a flag behind reads alone, whose values this thread has used: the memory model promises no order of them, the hardware
/// cannot reverse it.
__device__ __forceinline__ void count_flag(u32* at, u32 by) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(by) : "memory");
}
__device__ __forceinline__ u32 shared_address(const void* at) { return u32(__cvta_generic_to_shared(at)); }
// Barriers in shared memory. A phase ends when `arrivals` threads have arrived and all bytes that they expect have landed; bytes
// may land before they are expected, as long as an arrival is missing. The first phase has parity 0.
__device__ __forceinline__ void mbarrier_init(u64* at, u32 arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(at)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(u64* at) {
  asm volatile("{\n\t.reg .b64 state;\n\tmbarrier.arrive.shared.b64 state, [%0];\n\t}" ::"r"(shared_address(at)) : "memory");
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define MBARRIER_WAIT "mbarrier.test_wait.parity.shared.b64"
#else
#define MBARRIER_WAIT "mbarrier.try_wait.parity.shared::cta.b64"
#endif
/// Waits until the phase of this parity has ended.
__device__ __forceinline__ void mbarrier_wait(u64* at, u32 parity) {
  const u32 place = shared_address(at);
  u32 ended;
  do {
    asm volatile("{\n\t.reg .pred p;\n\t" MBARRIER_WAIT " p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(ended)
                 : "r"(place), "r"(parity)
                 : "memory");
  } while (!ended);
}
/// A place in the shared memory of a block of the cluster.
typedef u32 Remote;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
// No clusters: functions that would use them are not compiled to a kernel.
__device__ __forceinline__ unsigned cluster_rank() { return 0; }
__device__ __forceinline__ void cluster_arrive() {}
__device__ __forceinline__ void cluster_wait() {}
template <class T>
__device__ __forceinline__ T* map_shared(T* at, unsigned) {
  return at;
}
__device__ __forceinline__ void mbarriers_ready() {}
__device__ __forceinline__ void mbarrier_expect(u64*, u32) {}
__device__ __forceinline__ Remote remote(const void*, unsigned) { return 0; }
__device__ __forceinline__ void store_remote(Remote, double2, Remote) {}
__device__ __forceinline__ void bulk_copy(void*, const void*, u32, u64*) {}
__device__ __forceinline__ void async_fence() {}
__device__ __forceinline__ void shared_async_fence() {}
__device__ __forceinline__ void multiply_16x8x4(double*, double, double, double) {}
template <int COUNT>
__device__ __forceinline__ void grow_registers() {}
template <int COUNT>
__device__ __forceinline__ void shrink_registers() {}
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
/// By the thread that has initialised them, before a barrier with all that use them.
__device__ __forceinline__ void mbarriers_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async;" ::: "memory");
}
/// Arrives, and expects so many bytes more in this phase.
__device__ __forceinline__ void mbarrier_expect(u64* at, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(at)), "r"(bytes) : "memory");
}
/// The same place in the shared memory of another block of the cluster.
__device__ __forceinline__ Remote remote(const void* at, unsigned rank) {
  Remote mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(shared_address(at)), "r"(rank));
  return mapped;
}
/// 16 bytes to a block of the cluster, there when the phase of its mbarrier has ended, which is in the same block.
__device__ __forceinline__ void store_remote(Remote to, double2 value, Remote barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f64 [%0], {%1, %2}, [%3];" ::"r"(to), "d"(value.x),
               "d"(value.y), "r"(barrier)
               : "memory");
}
/// From global memory to that of the block, there when the phase of the mbarrier has ended: a multiple of 16 bytes, aligned to 16.
__device__ __forceinline__ void bulk_copy(void* to, const void* from, u32 bytes, u64* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}
/// Between accesses of this thread and asynchronous ones to the same memory.
__device__ __forceinline__ void async_fence() { asm volatile("fence.proxy.async;" ::: "memory"); }
/// The same for the shared memory of the block alone, without a wait for global memory.
__device__ __forceinline__ void shared_async_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Registers of a thread from here on, a multiple of 8 from 24 to 256, for all four warps 4n … 4n + 3 of a block. The first waits
// until others of the block have given as many back.
template <int COUNT>
__device__ __forceinline__ void grow_registers() {
#if BECALM_OWN_CODE
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT) : "memory");
#endif
}
template <int COUNT>
__device__ __forceinline__ void shrink_registers() {
#if BECALM_OWN_CODE
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT) : "memory");
#endif
}
/// d += a·b, 16×4 times 4×8: lane 4i + q has a[i][q] and a[i + 8][q], b[q][i], d[i][2q], d[i][2q + 1], d[i + 8][2q] and
/// d[i + 8][2q + 1]. Fused multiply-adds; the emulator takes them in the order of k.
__device__ __forceinline__ void multiply_16x8x4(double* d, double a0, double a1, double b) {
  asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
      : "d"(a0), "d"(a1), "d"(b));
}
#endif
#else
#include "emulator.h"
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned u32;
#define UNROLL _Pragma("GCC unroll 64")
#define LOOP
#define LOOP_2
#define LOOP_4
#define KERNEL
// The compiler of the emulator takes ten times as long over the exact kernels if it must inline every operation.
#define INLINE_ON_GPU __attribute__((noinline))
#define CONSTANT static const
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
