// Linear combinations and products of ciphertexts, value by value.
//
// Bounds: residues and constants up to p, so a sum is settled before its products would be more than `lazy_terms`; a term without a
// constant counts as a product, a pair as one or two, twice with factor 2.
#pragma once
#include "rns/key.cuh"

/// A term of a combination, as `becalm_cuda::rns::Term` lays it out: a ciphertext times a constant of each limb (null: 1), or values.
struct Term {
  const double *part0, *part1, *constants, *values;
  /// 1: negative in the upper half of the values.
  u32 flags, unused;
  u64 unused2;
};
/// factor·(a0 + a1·s)·(b0 + b1·s).
struct Pair {
  const double *a0, *a1, *b0, *b1;
  double factor;
  u64 unused;
};

/// A lazy sum at two neighbours, and how many products more it takes.
struct Gathered {
  Lazy x, y;
  u32 room;

  /// Before products that count as `weight`.
  __device__ __forceinline__ void reserve(const Sums& sums, u32 terms, u32 weight) {
    if (room < weight) sums.settle(x), sums.settle(y), room = terms;
    room -= weight;
  }
  __device__ __forceinline__ void add(double2 a, double2 b) { x.add(a.x, b.x), y.add(a.y, b.y); }
  __device__ __forceinline__ double2 end(const Sums& sums) const { return make_double2(sums.end(x), sums.end(y)); }
};

/// Values 2·at and the next; zeros of null.
__device__ __forceinline__ double2 load_pair(const double* limbs, u64 at) {
  return limbs ? reinterpret_cast<const double2*>(limbs)[at] : make_double2(0.0, 0.0);
}

/// Both parts of a term at two neighbours, and its factors.
struct Loaded {
  double2 part0, part1, factor;
};
/// Values 2·at and the next of limb i; `upper`: in the upper half.
__device__ __forceinline__ Loaded load_term(const Term& term, u32 i, u64 at, bool upper) {
  const double sign = (term.flags & 1) && upper ? -1.0 : 1.0;
  Loaded all = {load_pair(term.part0, at), load_pair(term.part1, at), make_double2(sign, sign)};
  if (term.values) {
    const double2 value = load_pair(term.values, at);
    all.factor = make_double2(sign * value.x, sign * value.y);
  } else if (term.constants) {
    all.factor.x = all.factor.y = sign * term.constants[i];
  }
  return all;
}

/// Adds a term.
__device__ __forceinline__ void add_term(Gathered* sum, const Sums& sums, u32 terms, const Loaded& term) {
  sum[0].reserve(sums, terms, 1), sum[1].reserve(sums, terms, 1);
  sum[0].add(term.part0, term.factor), sum[1].add(term.part1, term.factor);
}

/// Adds a product.
__device__ __forceinline__ void add_product(Gathered* sum, const Sums& sums, u32 terms, const Pair& pair, u64 at) {
  double2 a0 = load_pair(pair.a0, at), a1 = load_pair(pair.a1, at);
  const double2 b0 = load_pair(pair.b0, at), b1 = load_pair(pair.b1, at);
  const u32 weight = pair.factor > 1.0 ? 2 : 1;
  a0 = make_double2(pair.factor * a0.x, pair.factor * a0.y), a1 = make_double2(pair.factor * a1.x, pair.factor * a1.y);
  sum[0].reserve(sums, terms, weight), sum[1].reserve(sums, terms, 2 * weight), sum[2].reserve(sums, terms, weight);
  sum[0].add(a0, b0), sum[1].add(a0, b1), sum[1].add(a1, b0), sum[2].add(a1, b1);
}

/// The arguments.
struct SumOf {
  double* out[3];
  const Term* terms;
  u32 term_count;
  const Pair* pairs;
  u32 pair_count;
  const double* constants;
};

/// Makes two neighbours of limb blockIdx.y. A term costs 32 bytes, or 48, and 16 operations, a product 64 and 32.
template <bool PRODUCTS>
__device__ __forceinline__ void sum_values(const SumOf& a, const Word& word) {
  constexpr int PARTS = PRODUCTS ? 3 : 2;
  const u32 i = blockIdx.y, x = blockIdx.x * blockDim.x + threadIdx.x;
  const u64 at = u64(i) * (N / 2) + x;
  const bool upper = x >= N / 4;
  const Sums sums{word};
  const u32 terms = lazy_terms(word.p);
  const double constant = a.constants ? a.constants[i] : 0.0;
  Gathered sum[PARTS];
  UNROLL for (int k = 0; k < PARTS; k++) {
    sum[k].x = sum[k].y = sums.begin(k == 0 ? constant : 0.0);
    sum[k].room = terms;
  }
  // Two at a time: their loads are under way together.
  LOOP
  for (u32 t = 0; t < a.term_count; t += 2) {
    const Loaded first = load_term(a.terms[t], i, at, upper);
    Loaded second;
    const bool two = t + 1 < a.term_count;
    if (two) second = load_term(a.terms[t + 1], i, at, upper);
    add_term(sum, sums, terms, first);
    if (two) add_term(sum, sums, terms, second);
  }
  if (PRODUCTS) {
    LOOP
    for (u32 t = 0; t < a.pair_count; t++) add_product(sum, sums, terms, a.pairs[t], at);
  }
  UNROLL for (int k = 0; k < PARTS; k++) {
    if (a.out[k]) store_through(reinterpret_cast<double2*>(a.out[k]) + at, sum[k].end(sums));
  }
}
