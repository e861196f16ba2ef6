// From the residues modulo the primes d_i of D = Π d_i to those modulo other primes, of the number nearest zero: Σ_i y_i·c_i + v·c
// modulo each target, v = round(Σ_i y_i/d_i), as `math/rns/convert.rs` of becalm has it.
//
// Bounds: |y_i| <= d_i/2, factors at most half a target, below 2^49, so `terms` products of y stay below 2^101, whatever the target.
// The low part of a product is below 2^49; those of 14 products, of v·c and of what was settled gather below 2^53. A term costs four
// operations, a target eight more for each settling.
#pragma once
#include "rns/word.cuh"

/// A conversion, as `becalm_cuda::rns::Conversion` lays it out.
struct Conversion {
  /// How many sources: limbs `from`, `from` + 1, …
  u32 sources, from;
  /// How many targets, and the first in the list.
  u32 targets, target;
  /// Products between two settlings.
  u32 terms;
  /// The first constant: 1/d_i for each source, then for each target the c_i and c.
  u32 constant;
  u64 unused;
};
/// A limb that a conversion makes, modulo a word.
struct Target {
  u32 word, to;
};

constexpr u32 CONVERT_THREADS = 128;
/// Targets that a thread makes together.
constexpr u32 ABREAST = 4;
constexpr double CONVERT_MAGIC = 6755399441055744.0 * 1125899906842624.0;  // 1.5·2^102

/// The tile of a block: two neighbouring coefficients a thread.
struct Tile {
  /// Row i: the y_i of all threads, then v. Each thread reads its own.
  const double2* sources;
  /// Row i: the c_i of all targets of the block, then c, the primes and their inverses; `stride` apart.
  const double* factors;
  u32 stride;
};

/// The row of T factors, two at a time: it begins at an even number.
template <int T>
__device__ __forceinline__ void load_row(double (&c)[T], const double* row) {
  UNROLL for (int t = 0; t + 2 <= T; t += 2) {
    const double2 two = *reinterpret_cast<const double2*>(row + t);
    c[t] = two.x, c[t + 1] = two.y;
  }
  if (T == 1) c[0] = row[0];
}

/// The sums of T targets from number `first` of the block on, for both coefficients.
template <int T>
__device__ __forceinline__ void combine(double2* out, const Tile& tile, u32 first, const Target* targets, u32 sources, u32 terms) {
  Lazy x[T], y[T];
  UNROLL for (int t = 0; t < T; t++) x[t] = y[t] = Lazy(CONVERT_MAGIC, 0.0);
  const double* factors = tile.factors + first;
  const double2* at = tile.sources + threadIdx.x;
  auto gather = [&](double2 a, const double* row) {
    double c[T];
    load_row(c, row);
    UNROLL for (int t = 0; t < T; t++) x[t].add(a.x, c[t]), y[t].add(a.y, c[t]);
  };
  // Volatile: read where they are needed, or they would take registers all the time.
  const volatile double* const primes = factors + (sources + 1) * tile.stride;
  LOOP
  for (u32 left = sources;;) {
    // The last group takes v with it.
    const bool last = left <= terms;
    const u32 now = last ? left + 1 : terms;
    LOOP
    for (u32 i = 0; i < now; i++, at += CONVERT_THREADS, factors += tile.stride) gather(*at, factors);
    UNROLL for (int t = 0; t < T; t++) {
      const Modulo m(primes[t], primes[tile.stride + t]);
      x[t] = Lazy(CONVERT_MAGIC, x[t].settle(m, CONVERT_MAGIC));
      y[t] = Lazy(CONVERT_MAGIC, y[t].settle(m, CONVERT_MAGIC));
    }
    if (last) break;
    left -= terms;
  }
  UNROLL for (int t = 0; t < T; t++) store_through(out + u64(targets[first + t].to) * (N / 2), make_double2(x[t].low, y[t].low));
}

/// Puts the y_i and v of both coefficients of this thread into the tile.
__device__ __forceinline__ void load_sources(double2* tile, const double2* src, const double* inverses, u32 sources) {
  double x = 0.0, y = 0.0;
  LOOP_4
  for (u32 i = 0; i < sources; i++) {
    const double2 a = src[u64(i) * (N / 2)];
    const double inverse = inverses[i];
    tile[i * CONVERT_THREADS] = a;
    x = x + a.x * inverse, y = y + a.y * inverse;
  }
  tile[sources * CONVERT_THREADS] = make_double2(rint(x), rint(y));
}

/// Makes the targets of this block's part for 2·CONVERT_THREADS coefficients. Shared memory: the sources of the tile, then the factors.
__device__ __forceinline__ void convert(double* dst, const double* src, const Conversion& conversion, const double* constants,
                                        const Target* targets, const Word* words) {
  const u32 sources = conversion.sources, terms = conversion.terms, rows = sources + 1;
  // Parts of whole groups.
  const u32 part = (conversion.targets + ABREAST * gridDim.y - 1) / (ABREAST * gridDim.y) * ABREAST;
  const u32 begin = blockIdx.y * part;
  if (begin >= conversion.targets) return;
  const u32 count = part < conversion.targets - begin ? part : conversion.targets - begin;
  double2* const tile = shared_memory<double2>();
  double* const factors = reinterpret_cast<double*>(tile + rows * CONVERT_THREADS);
  constants += conversion.constant;
  targets += conversion.target + begin;
  LOOP
  for (u32 t = threadIdx.x % 32; t < count; t += 32) {
    const double* const row = constants + sources + (begin + t) * rows;
    LOOP_4
    for (u32 i = threadIdx.x / 32; i < rows; i += CONVERT_THREADS / 32) factors[i * part + t] = row[i];
    if (threadIdx.x >= 32) continue;
    const Word& word = words[targets[t].word];
    factors[rows * part + t] = word.p, factors[(rows + 1) * part + t] = word.inverse;
  }
  const u32 x = blockIdx.x * CONVERT_THREADS + threadIdx.x;
  const double2* const from = reinterpret_cast<const double2*>(src) + u64(conversion.from) * (N / 2) + x;
  load_sources(tile + threadIdx.x, from, constants, sources);
  if (!planted<5>()) __syncthreads();
  double2* const out = reinterpret_cast<double2*>(dst) + x;
  const Tile all = {tile, factors, part};
  u32 first = 0;
  LOOP
  for (; first + ABREAST <= count; first += ABREAST) {
    combine<ABREAST>(out, all, first, targets, sources, terms);
  }
  if (count & 2) combine<2>(out, all, first, targets, sources, terms), first += 2;
  if (count & 1) combine<1>(out, all, first, targets, sources, terms);
}
