// Polynomials modulo 2^64 to transforms and back: the bootstrapping key's way to the device, once.
#pragma once
#include "fft.cuh"
#include "rotate.cuh"

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
