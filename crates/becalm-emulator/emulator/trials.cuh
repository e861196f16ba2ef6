// Small kernels that only the emulator has, for its own tests: each uses some of what lands later than it is issued. `planted`
// numbers the waits that can be left out, beginning anew here.
#pragma once
#include "device.cuh"

constexpr u32 STAGES = 3, STAGE = 32;

/// The sum of each lane over `count` stages of `in`, which go through a ring of STAGES in shared memory. Block 64: thread 0
/// copies, the second warp adds.
KERNEL void becalm_try_ring(double* out, const double2* in, u32 count) {
  double2* const ring = shared_memory<double2>();
  u64* const full = reinterpret_cast<u64*>(ring + STAGES * STAGE);
  u64* const empty = full + STAGES;
  if (threadIdx.x == 0) {
    for (u32 s = 0; s < STAGES; s++) mbarrier_init(&full[s], 1), mbarrier_init(&empty[s], 32);
    mbarriers_ready();
  }
  if (!planted<1>()) __syncthreads();
  if (threadIdx.x == 0) {
    for (u32 i = 0; i < count; i++) {
      const u32 s = i % STAGES;
      if (i >= STAGES && !planted<2>()) mbarrier_wait(&empty[s], (i / STAGES - 1) % 2);
      mbarrier_expect(&full[s], STAGE * sizeof(double2));
      bulk_copy(ring + s * STAGE, in + i * STAGE, STAGE * sizeof(double2), &full[s]);
    }
  }
  if (threadIdx.x >= 32) {
    double sum = 0.0;
    for (u32 i = 0; i < count; i++) {
      const u32 s = i % STAGES, lane = threadIdx.x - 32;
      if (!planted<3>()) mbarrier_wait(&full[s], i / STAGES % 2);
      // Too early where it is planted.
      if (planted<4>()) mbarrier_arrive(&empty[s]);
      sum += ring[s * STAGE + lane].x + ring[s * STAGE + lane].y;
      if (!planted<4>()) mbarrier_arrive(&empty[s]);
    }
    out[threadIdx.x - 32] = sum;
  }
}

/// What every block makes of the values of all blocks, sent to all in each round.
__device__ __forceinline__ double next_value(const double2* box, u32 blocks, u32 rank) {
  double sum = 0.0;
  for (u32 b = 0; b < blocks; b++) sum += (b + 1.0) * box[b].x + box[b].y;
  return sum / 1024 + rank;
}

/// `rounds` rounds in which every block of a cluster sends a value to all, through one box a block and a barrier of the cluster.
/// Block 32, grid a cluster.
KERNEL void becalm_try_all_to_all(double* out, u32 rounds) {
  double2* const box = shared_memory<double2>();
  const u32 blocks = gridDim.x, rank = cluster_rank(), lane = threadIdx.x;
  u64* const here = reinterpret_cast<u64*>(box + blocks);
  if (lane == 0) {
    mbarrier_init(here, 1);
    mbarriers_ready();
  }
  cluster_arrive();
  cluster_wait();
  double value = rank;
  for (u32 round = 0; round < rounds; round++) {
    if (lane < blocks) store_remote(remote(box + rank, lane), make_double2(value, 1.0), remote(here, lane));
    // Some of the bytes may have landed.
    if (lane == 0) mbarrier_expect(here, blocks * sizeof(double2));
    if (!planted<5>()) mbarrier_wait(here, round % 2);
    value = next_value(box, blocks, rank);
    if (!planted<6>()) cluster_arrive(), cluster_wait();
  }
  if (lane == 0) out[rank] = value;
}

/// The same without a barrier, through two boxes by turns: who has all values of a round knows that all have read those before.
KERNEL void becalm_try_exchange(double* out, u32 rounds) {
  double2* const boxes = shared_memory<double2>();
  const u32 blocks = gridDim.x, rank = cluster_rank(), lane = threadIdx.x;
  u64* const here = reinterpret_cast<u64*>(boxes + 2 * blocks);
  if (lane == 0) {
    mbarrier_init(&here[0], 1);
    mbarrier_init(&here[1], 1);
    mbarriers_ready();
  }
  cluster_arrive();
  cluster_wait();
  double value = rank;
  for (u32 round = 0; round < rounds; round++) {
    const u32 side = planted<7>() ? 0 : round % 2;
    double2* const box = boxes + side * blocks;
    if (lane < blocks) store_remote(remote(box + rank, lane), make_double2(value, 1.0), remote(&here[round % 2], lane));
    if (lane == 0) mbarrier_expect(&here[round % 2], blocks * sizeof(double2));
    if (!planted<8>()) mbarrier_wait(&here[round % 2], round / 2 % 2);
    value = next_value(box, blocks, rank);
    // No lane sends before all have read.
    __syncwarp();
  }
  if (lane == 0) out[rank] = value;
}

constexpr u32 SLOTS = 2, SLOT = 64;

/// Sends `count` slots of `in` through a ring of SLOTS in global memory. `flags`: slots that are full, and that were emptied.
/// Each block has its own; block SLOT.
KERNEL void becalm_try_produce(double2* ring, u32* flags, const double2* in, u32 count) {
  ring += blockIdx.x * SLOTS * SLOT, flags += 2 * blockIdx.x, in += u64(blockIdx.x) * count * SLOT;
  for (u32 i = 0; i < count; i++) {
    if (threadIdx.x == 0 && i >= SLOTS && !planted<9>()) await_flag(&flags[1], i - SLOTS + 1);
    __syncthreads();
    store_through(&ring[i % SLOTS * SLOT + threadIdx.x], load_once(&in[i * SLOT + threadIdx.x]));
    if (!planted<10>()) __syncthreads();
    if (threadIdx.x == 0) raise_flag(&flags[0], 1);
  }
}

/// The sum of each thread over what comes through that ring.
KERNEL void becalm_try_consume(double* out, const double2* ring, u32* flags, u32 count) {
  ring += blockIdx.x * SLOTS * SLOT, flags += 2 * blockIdx.x;
  double2* const slot = shared_memory<double2>();
  u64* const here = reinterpret_cast<u64*>(slot + SLOT);
  if (threadIdx.x == 0) {
    mbarrier_init(here, 1);
    mbarriers_ready();
  }
  double sum = 0.0;
  for (u32 i = 0; i < count; i++) {
    __syncthreads();
    if (threadIdx.x == 0) {
      if (!planted<11>()) await_flag(&flags[0], i + 1);
      async_fence();
      mbarrier_expect(here, SLOT * sizeof(double2));
      bulk_copy(slot, ring + i % SLOTS * SLOT, SLOT * sizeof(double2), here);
      // Too early where it is planted: the copy may not have been read.
      if (planted<12>()) count_flag(&flags[1], 1);
    }
    mbarrier_wait(here, i % 2);
    if (threadIdx.x == 0 && !planted<12>()) count_flag(&flags[1], 1);
    sum += slot[threadIdx.x].x + slot[threadIdx.x].y;
  }
  out[blockIdx.x * SLOT + threadIdx.x] = sum;
}

/// Every block waits for the one behind it, up to the block `last`: out[b] = last − b. Block 1.
KERNEL void becalm_try_chain(u64* out, u32* flags, u32 last) {
  const u32 b = blockIdx.x;
  u64 value = 0;
  if (b != last) {
    if (!planted<13>()) await_flag(&flags[b + 1], 1);
    value = __ldcg(&out[b + 1]) + 1;
  }
  out[b] = value;
  raise_flag(&flags[b], 1);
}

/// Waits in a loop of its own.
KERNEL void becalm_try_poll(u64* out, const u32* flag, u32 wanted) {
  while (read_flag(flag) < wanted) {
  }
  out[0] = read_flag(flag);
}

/// d += a·b, 16×4 times 4×8, by a warp; `d` row by row. Behind it the words of a[0] apart and together.
KERNEL void becalm_try_multiply(double* d, const double* a, const double* b) {
  const u32 i = threadIdx.x / 4, q = threadIdx.x % 4;
  double* const upper = d + i * 8 + 2 * q;
  double* const lower = upper + 64;
  double sums[4] = {upper[0], upper[1], lower[0], lower[1]};
  multiply_16x8x4(sums, a[i * 4 + q], a[(i + 8) * 4 + q], b[q * 8 + i]);
  upper[0] = sums[0], upper[1] = sums[1], lower[0] = sums[2], lower[1] = sums[3];
  if (threadIdx.x > 0) return;
  d[128] = unsigned(__double2loint(a[0]));
  d[129] = __hiloint2double(__double2hiint(a[0]), __double2loint(a[0]));
}

/// A mistake of a kernel, by its number. Block 32, cluster of 2.
KERNEL void becalm_try_mistake(double2* out, u32 which) {
  double2* const box = shared_memory<double2>();
  u64* const here = reinterpret_cast<u64*>(box + 2);
  if (threadIdx.x == 0 && which != 0) mbarrier_init(here, 1);
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x > 0) return;
  // 0: an mbarrier that nobody has initialised. 1: a phase that does not end. 2: bytes that are never waited for.
  if (which <= 1) mbarrier_wait(here, 0);
  if (which == 2) bulk_copy(box, out, 16, here);
  // 3: too many arrivals. 4: a copy that is not aligned. 5: a round ahead, or bytes that nobody expects.
  if (which == 3) mbarrier_expect(here, 16), mbarrier_arrive(here);
  if (which == 4) bulk_copy(box, reinterpret_cast<unsigned char*>(out) + 8, 16, here);
  if (which == 5) {
    bulk_copy(box, out, 16, here);
    bulk_copy(box + 1, out, 16, here);
    mbarrier_expect(here, 16);
    mbarrier_wait(here, 0);
  }
  // 6: a store behind which the barrier is another block's.
  if (which == 6) store_remote(remote(box, 1), make_double2(1.0, 2.0), remote(here, 0));
}
