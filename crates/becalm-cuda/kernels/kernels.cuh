// The kernels of one ring, by the names under which a host finds them. `src/launch.rs` has the shapes of their launches.
#pragma once
#include "bundle.cuh"
#include "convert.cuh"
#include "key_switch.cuh"
#include "linear.cuh"
#include "micro.cuh"
#include "modulus_switch.cuh"
#include "rotate.cuh"
#if BECALM_STREAMED
#include "batch.cuh"
#include "leaves.cuh"
#endif

/// Shared memory of an SM: 227 KiB, and 99 KiB where doubles are slow.
constexpr int SM_BYTES = EXACT ? 101376 : MOST_SHARED;
/// Blocks of `bytes` shared memory that an SM takes, at most `most`, at least 1.
__device__ constexpr int blocks_for(int bytes, int most) {
  const int fit = SM_BYTES / (bytes + 1024);
  return fit < 1 ? 1 : fit < most ? fit : most;
}

constexpr int ONE_THREADS = RotateLayout<1, 1>::BLOCK_THREADS, TWO_THREADS = RotateLayout<1, 2>::BLOCK_THREADS;

KERNEL void __launch_bounds__(256) becalm_load_table(Coefficient* acc, const u64* const* tables, const u32* exponents, u32 width) {
  load_table(acc, tables, exponents, width);
}

KERNEL void __launch_bounds__(1024) becalm_sample_extract(const Extraction* extractions, const Coefficient* acc) {
  sample_extract(extractions, acc);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
/// A cluster of COLUMNS blocks for each ciphertext.
KERNEL void __launch_bounds__(THREADS, 1)
    becalm_rotate_cluster(Coefficient* acc, const Value* key, u64 job_stride, const u32* exponents, u32 width, u32 steps, u32 jobs,
                          const Value* table) {
  // Residues leave no registers for the factors of the transforms, nor do a thousand threads.
  rotate_steps<COLUMNS, 1, !EXACT && !RotateLayout<COLUMNS, 1>::FAR>(acc, key, job_stride, exponents, width, steps, jobs, table);
}
#endif

/// A block for each ciphertext.
#if BECALM_BLOCKS >= 1
KERNEL void __launch_bounds__(ONE_THREADS, blocks_for(RotateLayout<1, 1>::BYTES, 65536 / 128 / ONE_THREADS))
    becalm_rotate_block(Coefficient* acc, const Value* key, u64 job_stride, const u32* exponents, u32 width, u32 steps, u32 jobs,
                        const Value* table) {
  rotate_steps<1, 1, false>(acc, key, job_stride, exponents, width, steps, jobs, table);
}
#endif

/// A block for two ciphertexts, which read the key together.
#if BECALM_BLOCKS >= 2
KERNEL void __launch_bounds__(TWO_THREADS, 1)
    becalm_rotate_pair(Coefficient* acc, const Value* key, u64 job_stride, const u32* exponents, u32 width, u32 steps, u32 jobs,
                       const Value* table) {
  rotate_steps<1, 2, false>(acc, key, job_stride, exponents, width, steps, jobs, table);
}
#endif

#if BECALM_GROUP_GGSWS > 0
KERNEL void __launch_bounds__(BUNDLE_THREADS) becalm_bundle_one(Value* bundle, const Value* key, const u32* exponents,
                                                                    u32 width, u32 jobs, const Value* table) {
  make_bundles<1>(bundle, key, exponents, width, jobs, table);
}

KERNEL void __launch_bounds__(BUNDLE_THREADS) becalm_bundle_many(Value* bundle, const Value* key, const u32* exponents,
                                                                     u32 width, u32 jobs, const Value* table) {
  make_bundles<BUNDLE_JOBS>(bundle, key, exponents, width, jobs, table);
}
#endif

#if BECALM_GROUP_GGSWS > 0 && BECALM_ARITHMETIC == 0
KERNEL void __launch_bounds__(TENSOR_THREADS, 2) becalm_bundle_tensor(Value* bundle, const Value* key, const u32* exponents,
                                                                      u32 width, u32 jobs, const Value* table) {
  make_bundles_by_tensor(bundle, key, exponents, width, jobs, table);
}
#endif

#if BECALM_STREAMED && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
KERNEL void __launch_bounds__(BatchLayout::BLOCK_THREADS, 1)
    becalm_rotate_batch(Coefficient* acc, Value* ring, u32* flags, const Value* key, const u64* packed, u32 stride, u32 steps, u32 jobs,
                        u32 slots, const Value* table) {
  rotate_batch(acc, ring, flags, key, packed, stride, steps, jobs, slots, table);
}

/// Beside a rotation that needs half of a multiprocessor's registers.
KERNEL void __launch_bounds__(32 * MAKER_WARPS, 2)
    becalm_bundle_ahead(Value* bundles, u64 job_stride, u32* flags, const Value* key, const u64* packed, u32 stride, u32 steps, u32 jobs,
                        const Value* table) {
  const ToSteps to{bundles, job_stride, flags, steps, (jobs + UNIT_JOBS - 1) / UNIT_JOBS};
  make_bundles_ahead<MAKER_WARPS, 1, MAKER_STAGES, 1>(key, packed, stride, steps, jobs, blockIdx.x, gridDim.x, table, to);
}

/// A cluster of 16 blocks for each ciphertext.
KERNEL void __launch_bounds__(LeavesLayout<16>::BLOCK_THREADS, 1)
    becalm_rotate_leaves_16(Coefficient* acc, const u64* const* tables, const u32* exponents, u32 width, const Value* bundles, u64 job_stride,
                            const u32* flags, u32 steps, const Value* table) {
  rotate_leaves<16>({acc, tables, exponents, width}, bundles, job_stride, flags, steps, table);
}

/// A cluster of 4 blocks; two fit on an SM by their registers, so that others fit beside one.
KERNEL void __launch_bounds__(LeavesLayout<4>::BLOCK_THREADS, 2)
    becalm_rotate_leaves_4(Coefficient* acc, const u64* const* tables, const u32* exponents, u32 width, const Value* bundles, u64 job_stride,
                            const u32* flags, u32 steps, const Value* table) {
  rotate_leaves<4>({acc, tables, exponents, width}, bundles, job_stride, flags, steps, table);
}

KERNEL void __launch_bounds__(STREAM_THREADS, 1)
    becalm_bundle_stream(Value* bundles, u32* flags, const Value* key, const u32* exponents, u32 steps, const Value* table) {
  make_bundles_in_order(bundles, flags, key, exponents, steps, table);
}
#endif

KERNEL void __launch_bounds__(256)
    becalm_key_switch_start(u64* const* outputs, const u64* const* inputs, uint4* digits, KeySwitchShape shape, u32 jobs) {
  key_switch_start(outputs, inputs, digits, shape, jobs);
}

KERNEL void __launch_bounds__(KEY_SWITCH_WARPS * 32, 4)
    becalm_key_switch_32(u64* const* outputs, const uint4* digits, const uint4* key, KeySwitchShape shape, u32 jobs, u32 slices) {
  key_switch_add<4>(outputs, digits, key, shape, jobs, slices);
}

KERNEL void __launch_bounds__(KEY_SWITCH_WARPS * 32, 4)
    becalm_key_switch_64(u64* const* outputs, const uint4* digits, const uint4* key, KeySwitchShape shape, u32 jobs, u32 slices) {
  key_switch_add<8>(outputs, digits, key, shape, jobs, slices);
}

KERNEL void __launch_bounds__(MODULUS_SWITCH_THREADS)
    becalm_modulus_switch(u32* exponents, const u64* const* inputs, u32 dimension, u32 centered, u64* packed, u32 stride, u32* flags,
                          u32 flag_count) {
  modulus_switch(exponents, inputs, dimension, centered, packed, stride, flags, flag_count);
}

KERNEL void __launch_bounds__(256) becalm_linear(const LinearOp* ops, const LinearTerm* terms) { linear(ops, terms); }

KERNEL void __launch_bounds__(CONVERT_POLYNOMIALS * THREADS)
    becalm_to_fourier(Value* out, const u64* in, u64 count, const Value* table) {
  to_fourier(out, in, count, table);
}

// For the emulator's tests alone: no bootstrap needs it.
#if !defined(__CUDACC__) && !defined(__CUDACC_RTC__)
KERNEL void __launch_bounds__(CONVERT_POLYNOMIALS * THREADS)
    becalm_from_fourier(Coefficient* out, const Value* in, u64 count, const Value* table) {
  from_fourier(out, in, count, table);
}
#endif

// The microbenchmarks are in the code of one ring, that of tfhe_2_2_multi_bit_4.
#if BECALM_ARITHMETIC == 0 && (defined(BECALM_PLANTS) || (BECALM_LOG2_N == 11 && BECALM_GROUP_GGSWS == 15))
#define BECALM_MICRO
KERNEL void __launch_bounds__(1024) becalm_micro_fp64(u64* out, double* sums, u32 rounds, u32 kind) {
  micro_fp64(out, sums, rounds, kind);
}

KERNEL void __launch_bounds__(1024) becalm_micro_read(u64* out, double* sums, const double2* data, u32 count, u32 rounds) {
  micro_read(out, sums, data, count, rounds);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
KERNEL void __launch_bounds__(1024) becalm_micro_barrier(u64* out, u32 rounds) { micro_barrier(out, rounds); }

KERNEL void __launch_bounds__(1024) becalm_micro_remote(u64* out, u32* last, u32 rounds) { micro_remote(out, last, rounds); }
#endif
#endif
