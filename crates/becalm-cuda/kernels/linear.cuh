// Linear instructions on ciphertexts, and keys to the domain of the transform.
#pragma once
#include "rotate.cuh"

constexpr int TERMS = 16;
/// Up to TERMS ciphertext batches and their factors.
struct Terms {
  const u64* words[TERMS];
  u64 factors[TERMS];
  u32 count;
};

/// dst (+)= Σ factor·words, and `constant` to each of `bodies` bodies: any grid, `width` words a ciphertext, `total` in all.
/// `more`: dst already holds the sum of other terms.
__device__ void multiply_add_words(u64* dst, Terms terms, u64 constant, u32 width, u32 bodies, u64 total, u32 more) {
  for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += u64(gridDim.x) * blockDim.x) {
    u64 sum = more ? dst[i] : 0;
    for (u32 j = 0; j < terms.count; j++) sum = added(sum, scaled(terms.words[j][i], i64(terms.factors[j])));
    if (i % width >= width - bodies) sum = added(sum, constant);
    dst[i] = sum;
  }
}

/// dst = src, and constants[j] to body j.
__device__ void add_slots(u64* dst, const u64* src, const u64* constants, u32 width, u32 bodies, u64 total) {
  for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += u64(gridDim.x) * blockDim.x) {
    const u32 at = i % width;
    dst[i] = added(src[i], at >= width - bodies ? constants[at - (width - bodies)] : 0);
  }
}

/// Mask and body `slot` of ciphertexts of `mask` + `bodies` words.
__device__ void extract_slot(u64* dst, const u64* src, u32 mask, u32 bodies, u32 slot, u64 total) {
  for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += u64(gridDim.x) * blockDim.x) {
    const u64 job = i / (mask + 1), at = i % (mask + 1);
    dst[i] = src[job * (mask + bodies) + (at == mask ? mask + slot : at)];
  }
}

constexpr int CONVERT_POLYNOMIALS = THREADS >= 128 ? 1 : 128 / THREADS;

/// Polynomials of words as transforms: grid ⌈count/CONVERT_POLYNOMIALS⌉, block CONVERT_POLYNOMIALS·THREADS, shared
/// CONVERT_POLYNOMIALS·M values.
__device__ __forceinline__ void to_fourier(Value* out, const u64* in, u64 count, const Value* table) {
  const int t = threadIdx.x % THREADS, slot = threadIdx.x / THREADS;
  const u64 wanted = u64(blockIdx.x) * CONVERT_POLYNOMIALS + slot, index = wanted < count ? wanted : count - 1;
  const u64* polynomial = in + index * N;
  Value z[POINTS];
  UNROLL for (int r = 0; r < POINTS; r++) z[r] = gather(t + THREADS * r, [&](int at) { return from_torus(polynomial[at]); });
  const Twiddles<false> twiddles(table, t);
  transform(z, shared_memory<Value>() + slot * M, twiddles, t, slot);
  if (wanted >= count) return;
  UNROLL for (int r = 0; r < POINTS; r++) out[index * M + r * THREADS + t] = z[r];
}

/// The inverse, to coefficients, not reduced modulo the torus; the same launch. For tests: no bootstrap needs it.
__device__ __forceinline__ void from_fourier(Coefficient* out, const Value* in, u64 count, const Value* table) {
  const int t = threadIdx.x % THREADS, slot = threadIdx.x / THREADS;
  const u64 wanted = u64(blockIdx.x) * CONVERT_POLYNOMIALS + slot, index = wanted < count ? wanted : count - 1;
  Value z[POINTS];
  UNROLL for (int r = 0; r < POINTS; r++) z[r] = in[index * M + r * THREADS + t];
  const Twiddles<false> twiddles(table, t);
  transform_back<false>(z, shared_memory<Value>() + slot * M, twiddles, t, slot);
  if (wanted >= count) return;
  UNROLL for (int r = 0; r < POINTS; r++) scatter(out + index * N, t + THREADS * r, z[r]);
}
