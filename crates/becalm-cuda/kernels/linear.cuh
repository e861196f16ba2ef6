// Linear instructions on ciphertexts modulo 2^64, and keys to the Fourier domain.
#pragma once
#include "fft.cuh"
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
    for (u32 j = 0; j < terms.count; j++) sum += terms.factors[j] * terms.words[j][i];
    if (i % width >= width - bodies) sum += constant;
    dst[i] = sum;
  }
}

/// dst = src, and constants[j] to body j.
__device__ void add_slots(u64* dst, const u64* src, const u64* constants, u32 width, u32 bodies, u64 total) {
  for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += u64(gridDim.x) * blockDim.x) {
    const u32 at = i % width;
    dst[i] = src[i] + (at >= width - bodies ? constants[at - (width - bodies)] : 0);
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

/// Polynomials modulo 2^64 as transforms, in units of the last digit: grid ⌈count/CONVERT_POLYNOMIALS⌉, block
/// CONVERT_POLYNOMIALS·THREADS, shared CONVERT_POLYNOMIALS·M·16 bytes.
__device__ __forceinline__ void to_fourier(double2* out, const u64* in, u64 count, const double2* table) {
  const int t = threadIdx.x % THREADS, slot = threadIdx.x / THREADS;
  const u64 wanted = u64(blockIdx.x) * CONVERT_POLYNOMIALS + slot, index = wanted < count ? wanted : count - 1;
  const u64* polynomial = in + index * N;
  double2 z[POINTS];
  UNROLL for (int r = 0; r < POINTS; r++) {
    z[r] = make_double2(from_torus(polynomial[t + THREADS * r]), from_torus(polynomial[t + THREADS * r + M]));
  }
  const Twiddles<false> twiddles(table, t);
  fft_forward(z, shared_memory<double2>() + slot * M, twiddles, t, slot);
  if (wanted >= count) return;
  UNROLL for (int r = 0; r < POINTS; r++) out[index * M + r * THREADS + t] = z[r];
}

/// The inverse, to the same units, not reduced; the same launch. For tests: no bootstrap needs it.
__device__ __forceinline__ void from_fourier(double* out, const double2* in, u64 count, const double2* table) {
  const int t = threadIdx.x % THREADS, slot = threadIdx.x / THREADS;
  const u64 wanted = u64(blockIdx.x) * CONVERT_POLYNOMIALS + slot, index = wanted < count ? wanted : count - 1;
  double2 z[POINTS];
  UNROLL for (int r = 0; r < POINTS; r++) z[r] = in[index * M + r * THREADS + t];
  const Twiddles<false> twiddles(table, t);
  fft_inverse<false>(z, shared_memory<double2>() + slot * M, twiddles, t, slot);
  if (wanted >= count) return;
  UNROLL for (int r = 0; r < POINTS; r++) {
    out[index * N + t + THREADS * r] = z[r].x;
    out[index * N + t + THREADS * r + M] = z[r].y;
  }
}
