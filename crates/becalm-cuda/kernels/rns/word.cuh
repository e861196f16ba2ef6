// Arithmetic modulo the primes of a chain, in doubles: residues are signed integers, at most p in absolute value where a kernel reads
// them and at most p/2 + 1 where it writes them.
//
// a·b mod p = fma(−q, p, h) + l with h = a·b rounded, l = fma(a, b, −h) and q the integer nearest to h/p but for its rounding: exact while
// |a·b| < 2^51·p. A product takes six operations. A sum of products is reduced once: four operations each.
#pragma once
#include "device.cuh"

constexpr int LOG2_N = BECALM_LOG2_N, N = 1 << LOG2_N;
static_assert(LOG2_N >= 12 && LOG2_N <= 17, "polynomials of 4096 to 131072 coefficients");

/// Sums with it have no fraction.
constexpr double WHOLE = 6755399441055744.0;  // 1.5·2^52

/// The constants of a prime p < 2^50, as `becalm_cuda::rns::Word` lays them out.
struct Word {
  double p, inverse;
  /// Of lazy sums: 3·2^(k−1), where 2^k bounds a sum of a few products of residues.
  double magic;
  /// √−1, the value of X^(N/2) at ψ.
  double imaginary;
  /// Twiddles of both directions: w[k] = ψ^brv(k), or its inverse. N/16 of them from k = 0 on, then w[N/2 + 8j] for j < N/16.
  const double *forward, *backward;
};

/// The odd exponent at which the value of this number is taken: the order of files, in which the last 64 values of a transform are
/// transposed.
__device__ __forceinline__ u32 transposed(u32 i) { return (i & ~63u) | (i & 7) << 3 | (i >> 3 & 7); }
__device__ __forceinline__ u32 exponent_of(u32 i) { return 2 * (reversed(transposed(i)) >> (32 - LOG2_N)) + 1; }
__device__ __forceinline__ u32 value_at(u32 exponent) { return transposed(reversed(exponent >> 1) >> (32 - LOG2_N)); }
/// The number of the value that value `i` of the image under X → X^power comes from. Aligned blocks of 64 come from aligned blocks of 64.
__device__ __forceinline__ u32 source_of(u32 i, u32 power) { return value_at(exponent_of(i) * power & (2 * N - 1)); }

struct Modulo {
  double p, inverse;

  __device__ __forceinline__ explicit Modulo(const Word& word) : p(word.p), inverse(word.inverse) {}
  __device__ __forceinline__ Modulo(double p, double inverse) : p(p), inverse(inverse) {}
  /// The integer nearest to a/p, which is below 2^51.
  __device__ __forceinline__ double quotient(double a) const { return fma(a, inverse, WHOLE) - WHOLE; }
  /// a, below 2^51·p, brought to p/2 + |a|/2^53.
  __device__ __forceinline__ double reduce(double a) const { return fma(-quotient(a), p, a); }
  /// a·b, within p/2 + max(|a|, |b|)/8 where the other is at most p/2.
  __device__ __forceinline__ double mul(double a, double b) const {
    const double high = a * b, low = fma(a, b, -high);
    return fma(-quotient(high), p, high) + low;
  }
};

/// A sum of products that is reduced once: high − magic + low.
struct Lazy {
  double high, low;

  Lazy() = default;
  __device__ __forceinline__ Lazy(double magic, double first) : high(magic), low(first) {}
  __device__ __forceinline__ void add(double a, double b) {
    const double sum = fma(a, b, high);
    low += fma(a, b, high - sum);
    high = sum;
  }
  /// The sum, brought to p/2.
  __device__ __forceinline__ double settle(const Modulo& m, double magic) const {
    const double above = high - magic;
    // This quotient may have more than 51 bits.
    const double rest = fma(-rint(above * m.inverse), m.p, above);
    return m.reduce(rest + low);
  }
};
