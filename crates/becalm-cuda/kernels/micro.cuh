// Measurements of a GPU that the kernels' design rests on and its data sheet does not give: round trip of a cluster barrier, a dependent
// multiply-add, products of the tensor cores alone and beside multiply-adds, bandwidth of the second-level cache, latency of
// distributed shared memory. `becalm bench --device cuda --micro` launches these; no bootstrap does.
//
// Each block writes the clocks of its multiprocessor from its first to its last instruction that counts.
#pragma once
#include "device.cuh"

/// Between two barriers of the block: what one of its threads sees of all.
template <class F>
__device__ __forceinline__ void timed(u64* out, F work) {
  __syncthreads();
  const u64 began = clocks();
  work();
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = clocks() - began;
}

/// `rounds` barriers of a cluster.
__device__ __forceinline__ void micro_barrier(u64* out, u32 rounds) {
  timed(out, [&] {
    LOOP
    for (u32 round = 0; round < rounds; round++) {
      cluster_arrive();
      cluster_wait();
    }
  });
}

/// `rounds` times: 8 multiply-adds that wait for each other (kind 0), 8 that do not (1), 8 products of 8×4 by 4×8 that do
/// not (2), or the second in warps of even number and the third in those of odd (3). `sums`: a word a thread.
__device__ __forceinline__ void micro_fp64(u64* out, double* sums, u32 rounds, u32 kind) {
  double x[8], y[8];
  const double factor = 1.0 + threadIdx.x * 0x1p-40;
  UNROLL for (int i = 0; i < 8; i++) x[i] = y[i] = i + 1.0;
  const bool products = kind == 2 || (kind == 3 && threadIdx.x / 32 % 2 == 1);
  timed(out, [&] {
    LOOP
    for (u32 round = 0; round < rounds; round++) {
      if (products) {
        UNROLL for (int i = 0; i < 8; i++) multiply_8x8x4(x[i], y[i], factor, 0.25);
      } else if (kind == 0) {
        UNROLL for (int i = 0; i < 8; i++) x[0] = fma(x[0], factor, 1.0);
      } else {
        UNROLL for (int i = 0; i < 8; i++) x[i] = fma(x[i], factor, 1.0);
      }
    }
  });
  double sum = 0.0;
  UNROLL for (int i = 0; i < 8; i++) sum += x[i] + y[i];
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// All threads read `count` values `rounds` times, past the first-level cache. `sums`: a word a thread.
__device__ __forceinline__ void micro_read(u64* out, double* sums, const double2* data, u32 count, u32 rounds) {
  double2 sum = make_double2(0.0, 0.0);
  timed(out, [&] {
    for (u32 round = 0; round < rounds; round++) {
      LOOP_4
      for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const double2 value = __ldcg(&data[i]);
        sum.x += value.x;
        sum.y += value.y;
      }
    }
  });
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum.x + sum.y;
}

constexpr u32 CHAIN = 256;
/// One thread follows a chain of `rounds` places through the shared memory of the other block of its cluster; the last place
/// goes to `last`. Grid (2), shared CHAIN words of 32 bits.
__device__ __forceinline__ void micro_remote(u64* out, u32* last, u32 rounds) {
  u32* const chain = shared_memory<u32>();
  for (u32 i = threadIdx.x; i < CHAIN; i += blockDim.x) chain[i] = (5 * i + 1) % CHAIN;
  cluster_arrive();
  if (!planted<8>()) cluster_wait();
  timed(out, [&] {
    if (threadIdx.x > 0) return;
    const u32* const theirs = map_shared(chain, cluster_rank() ^ 1);
    u32 at = 0;
    LOOP
    for (u32 round = 0; round < rounds; round++) at = theirs[at];
    last[blockIdx.x] = at;
  });
  if (planted<8>()) cluster_wait();
  // No block leaves while its chain is followed.
  cluster_arrive();
  if (!planted<11>()) cluster_wait();
}
