// Modulus switch: an LWE ciphertext, lifted to 2^64 where it is modulo p, to exponents modulo 2N, GGSWS of them for a group of key bits, then those of
// the bodies. A value v of a multi-bit group stands for the sum of the mask elements that its bits name, in a block for one.
//
// Exponents are the nearest cells, halves up. `centered`: the body moves by the mean over a group's values of their rounding
// errors, summed over all groups, and is rounded down: b̂ = ⌊b + Σ e_v/(GGSWS + 1)⌋. The sum is exact, in 128 bits.
//
// Bundles made ahead by tensor cores want the exponents of a group in 16 bits, as the lanes of a product read them (`streams.cuh`), and
// flags that are 0: this kernel, which runs before them, does both.
#pragma once
#include "transform.cuh"

constexpr int MODULUS_SWITCH_THREADS = 256;

/// Exponents of 16 bits of a group of 15: word i of four has those of values i, 4 + i, 8 + i and 12 + i; the sixteenth is 0.
__device__ __forceinline__ void pack_exponents(u64* packed, const u32* exponents) {
  UNROLL for (int i = 0; i < 4; i++) {
    u64 word = 0;
    UNROLL for (int j = 0; j < 4; j++) word |= u64(4 * j + i < GGSWS ? exponents[4 * j + i] : 0) << (16 * j);
    packed[i] = word;
  }
}

/// Grid (jobs), block MODULUS_SWITCH_THREADS, shared 128 bytes. `inputs`: of each job, `dimension` + BODIES words. `packed`:
/// `[group][job][4]` with `stride` jobs from group to group, not written if that is 0; `flags`: so many, which become 0.
__device__ void modulus_switch(u32* exponents, const u64* const* inputs, u32 dimension, u32 centered, u64* packed, u32 stride, u32* flags,
                               u32 flag_count) {
  for (u32 i = blockIdx.x * MODULUS_SWITCH_THREADS + threadIdx.x; i < flag_count; i += gridDim.x * MODULUS_SWITCH_THREADS) flags[i] = 0;
  constexpr int SHIFT = 63 - LOG2_N;
  constexpr u64 HALF = u64(1) << (SHIFT - 1);
  const u32 groups = dimension / GROUP_BITS, width = groups * GGSWS + BODIES;
  const u64* const in = inputs[blockIdx.x];
  exponents += u64(blockIdx.x) * width;
  // Errors are at most half a cell, 2^(SHIFT−1): a thread's sum stays below 2^63.
  i64 errors = 0;
  for (u32 group = threadIdx.x; group < groups; group += MODULUS_SWITCH_THREADS) {
    u64 sums[1 << GROUP_BITS];
    sums[0] = 0;
    UNROLL for (int v = 0; v < GGSWS; v++) {
      u64 sum;
      if (GGSWS == GROUP_BITS) {
        sum = lifted(in[group * GROUP_BITS + v]);
      } else {
        // Value v + 1 is v + 1 without its lowest bit, and the element of that bit.
        const int value = v + 1, lowest = value & -value, bit = lowest == 1 ? 0 : lowest == 2 ? 1 : lowest == 4 ? 2 : lowest == 8 ? 3 : 4;
        sum = sums[value & v] + lifted(in[group * GROUP_BITS + bit]);
        sums[value] = sum;
      }
      exponents[group * GGSWS + v] = u32((sum + HALF) >> SHIFT);
      errors += i64(HALF) - i64((sum + HALF) & (2 * HALF - 1));
    }
  }
  if (BECALM_STREAMED && stride > 0) {
    for (u32 group = threadIdx.x; group < groups; group += MODULUS_SWITCH_THREADS) {
      pack_exponents(packed + (u64(group) * stride + blockIdx.x) * 4, exponents + group * GGSWS);
    }
  }
  // Halves of 32 bits, so that the sums over threads cannot overflow.
  i64 low = errors & 0xFFFFFFFFll, high = errors >> 32;
  for (int mask = 16; mask > 0; mask /= 2) {
    low += __shfl_xor_sync(~0u, low, mask);
    high += __shfl_xor_sync(~0u, high, mask);
  }
  i64* const halves = shared_memory<i64>();
  if (threadIdx.x % 32 == 0) {
    halves[threadIdx.x / 32 * 2] = low;
    halves[threadIdx.x / 32 * 2 + 1] = high;
  }
  if (!planted<9>()) __syncthreads();
  for (u32 slot = threadIdx.x; slot < u32(BODIES); slot += MODULUS_SWITCH_THREADS) {
    const u64 body = lifted(in[dimension + slot]);
    u64 cell = (body + HALF) >> SHIFT;
    if (centered) {
      __int128 total = __int128(body) * (GGSWS + 1);
      for (int warp = 0; warp < MODULUS_SWITCH_THREADS / 32; warp++) {
        total += __int128(halves[2 * warp]) + __int128(halves[2 * warp + 1]) * (i64(1) << 32);
      }
      // Rounding down twice is rounding down once.
      const i64 cells = i64(total >> SHIFT), values = GGSWS + 1;
      cell = u64(cells >= 0 ? cells / values : -((values - 1 - cells) / values));
    }
    exponents[groups * GGSWS + slot] = u32(cell & (2 * N - 1));
  }
}
