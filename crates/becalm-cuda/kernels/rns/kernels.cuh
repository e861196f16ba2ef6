// The kernels of CKKS for one size of polynomials, by the names under which a host finds them. `src/rns.rs` has the shapes of their
// launches and the tables that they read.
//
//   BECALM_RNS      1
//   BECALM_LOG2_N   log2 N
#pragma once
#include "rns/baby.cuh"
#include "rns/convert.cuh"
#include "rns/key.cuh"
#include "rns/sum.cuh"
#include "rns/transform.cuh"

/// Conversions of polynomials between words, between the rows of transforms back and forward; grid.y: parts of the targets, grid.z:
/// conversions of each polynomial.
KERNEL void __launch_bounds__(CONVERT_THREADS, 4)
    becalm_convert(double* dst, const double* src, const Job* jobs, const Conversion* conversions, const double* constants,
                   const Target* targets, const Word* words, u64 dst_stride, u64 src_stride, u32 count) {
  const u32 polynomial = blockIdx.z / count;
  convert(dst + polynomial * dst_stride, src + polynomial * src_stride, jobs, conversions[blockIdx.z % count], constants, targets, words);
}

/// A key times the digits of some polynomials, or of their images; grid.y: limbs, two values of a polynomial a thread.
KERNEL void __launch_bounds__(256, 3)
    becalm_key_product(double* out, const double* base, const double* own0, const double* own1, u32 owned, const double* lifted,
                       const double* values, const KeyLimb* limbs, const Word* words, const double* bodies, const double* masks,
                       u32 stored, u32 digits, u32 step, u32 count, u32 power, u32 batch, u64 own_stride, u64 values_stride,
                       u64 lifted_stride) {
  const KeyProduct all = {out,    base,   own0, own1,  owned, lifted,     values,        bodies,       masks,
                          stored, digits, step, count, batch, own_stride, values_stride, lifted_stride};
  const KeyLimb& limb = limbs[blockIdx.y];
  const Word& word = words[limb.word];
  if (power == 1) {
    key_product<false>(all, limb, word, power);
  } else {
    key_product<true>(all, limb, word, power);
  }
}

/// The baby steps of a block: neighbouring blocks have the same part of the keys and diagonals, for a lane each.
__device__ __forceinline__ BabySteps of_lane(BabySteps all, u32 inputs_count, u32 lanes) {
  const u32 lane = blockIdx.x % lanes;
  all.out += u64(2 * lane) * all.count * N, all.inputs += lane * inputs_count;
  all.tile = blockIdx.x / lanes, all.giant_stride = u64(2 * lanes) * all.count * N;
  return all;
}

/// Baby steps of a linear map with the diagonals of up to four giant steps, for one input of a lane or two; grid.y: limbs, a value a thread.
KERNEL void __launch_bounds__(BABY_THREADS, 4)
    becalm_key_baby(double* out, const Turned* inputs, const Baby* babies, const Diagonal* diagonals, const KeyLimb* limbs,
                    const Word* words, u32 babies_count, u32 inputs_count, u32 giants, u32 giant0, u32 giants_of_all, u32 digits,
                    u32 count, u32 kept, u32 lanes) {
  const BabySteps steps = {out, inputs, babies, diagonals, babies_count, giants, giant0, giants_of_all, digits, count, kept, 0, 0};
  const BabySteps all = of_lane(steps, inputs_count, lanes);
  const KeyLimb& limb = limbs[blockIdx.y];
  const Word& word = words[limb.word];
  switch (inputs_count == 1 ? giants : 4 + giants) {
    case 1: return key_baby<1, 1>(all, limb, word);
    case 2: return key_baby<1, 2>(all, limb, word);
    case 3:
    case 4: return key_baby<1, 4>(all, limb, word);
    case 5: return key_baby<2, 1>(all, limb, word);
    case 6: return key_baby<2, 2>(all, limb, word);
    default: return key_baby<2, 4>(all, limb, word);
  }
}

/// The same of up to eight giant steps.
KERNEL void __launch_bounds__(BABY_THREADS, 3)
    becalm_key_baby_8(double* out, const Turned* inputs, const Baby* babies, const Diagonal* diagonals, const KeyLimb* limbs,
                      const Word* words, u32 babies_count, u32 inputs_count, u32 giants, u32 giant0, u32 giants_of_all, u32 digits,
                      u32 count, u32 kept, u32 lanes) {
  const BabySteps steps = {out, inputs, babies, diagonals, babies_count, giants, giant0, giants_of_all, digits, count, kept, 0, 0};
  const BabySteps all = of_lane(steps, inputs_count, lanes);
  const KeyLimb& limb = limbs[blockIdx.y];
  const Word& word = words[limb.word];
  if (inputs_count == 1) {
    key_baby<1, 8>(all, limb, word);
  } else {
    key_baby<2, 8>(all, limb, word);
  }
}

/// Sums of terms and of products; grid.y: limbs, two values a thread; grid.z: sums of as many terms and products, and of one constant.
KERNEL void __launch_bounds__(256, 4)
    becalm_sum(double* out0, double* out1, double* out2, const Term* terms, u32 term_count, const Pair* pairs, u32 pair_count,
               const double* constants, const Word* words, u32 first_word, u64 stride) {
  const u32 sum = blockIdx.z;
  const u64 at = sum * stride;
  const SumOf all = {{out0 + at, out1 + at, out2 ? out2 + at : nullptr}, terms + sum * term_count, term_count, pairs + sum * pair_count,
                     pair_count, constants};
  const Word& word = words[first_word + blockIdx.y];
  if (pair_count > 0) {
    sum_values<true>(all, word);
  } else {
    sum_values<false>(all, word);
  }
}

// Three blocks of rows fit on a multiprocessor by their registers.
KERNEL void __launch_bounds__(TRANSFORM_THREADS, 3)
    becalm_ntt_rows(double* dst, const double* y, const Job* jobs, const Word* words, u64 dst_stride, u64 y_stride, u32 kind) {
  ntt_rows(dst, y, jobs, words, dst_stride, y_stride, kind);
}

KERNEL void __launch_bounds__(TRANSFORM_THREADS, 3)
    becalm_intt_rows(double* dst, const double* src, const Job* jobs, const Word* words, u64 dst_stride, u64 src_stride) {
  intt_rows(dst, src, jobs, words, dst_stride, src_stride);
}
