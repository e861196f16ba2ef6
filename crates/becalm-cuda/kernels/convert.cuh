// Polynomials to transforms and back: the bootstrapping key's way to the device, once.
#pragma once
#include "rotate.cuh"

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

/// The inverse, to coefficients, not reduced modulo the torus; the same launch. For tests on the emulator: GPUs have no kernel of it.
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
