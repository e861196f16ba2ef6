// From the residues modulo the primes d_i of D = Π d_i to those modulo other primes, of the number nearest zero: Σ_i y_i·c_i + v·c
// modulo each target, v = round(Σ_i y_i/d_i), as `math/rns/convert.rs` of becalm has it. The kernel does the last layers of the sources'
// transforms back and the first of the targets' forward too, down the columns, so that coefficients are never in memory.
//
// A column has N/4096 residues. A thread has 8 residues of each limb: of N = 2^16 two threads share a column, of N = 2^17 four, and in
// smaller rings a thread has several. A block's warps have the same 32 threads' columns. They share the sources among them, then v, then
// the targets, two at a time; sources and v are in shared memory.
//
// Bounds: |y_i| <= d_i/2, factors at most half a target, below 2^49, so `terms` products of y stay below 2^101, whatever the target.
// The low part of a product is below 2^49; those of 14 products, of v·c and of what was settled gather below 2^53. To leave no room for the
// rest, below p, all of these would have to be at their limit.
//
// Operations on doubles for 8 residues, N = 2^16: 203 for a source and 16 more for its part of v, and for a target 32 for each source and
// for v, 64 to settle and 128 for the layers. Two targets share a reading of the sources: 64 bytes of shared memory for 64 operations, of
// which a multiprocessor does 128 and 64 in a clock. By its registers it has four blocks.
#pragma once
#include "rns/transform.cuh"

/// A conversion, as `becalm_cuda::rns::Conversion` lays it out.
struct Conversion {
  /// How many sources, and the job of the first: each says its limb, word and factor.
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

/// Residues of a thread, threads of a column, and residues that the same one has in turn before the others'.
constexpr int HELD = 8, SHARERS = LOG2_ROWS > 3 ? ROWS / HELD : 1, TURN = HELD / SHARERS;
/// Residues from one that a thread has to the next in memory.
constexpr u32 APART = N / (HELD * SHARERS);
constexpr u32 CONVERT_THREADS = 128, CONVERT_WARPS = CONVERT_THREADS / 32;
/// Targets that a thread makes together, and twiddles of a column.
constexpr int ABREAST = 2, TWIDDLES = HELD * SHARERS;
constexpr double CONVERT_MAGIC = 6755399441055744.0 * 1125899906842624.0;  // 1.5·2^102
static_assert(SHARERS == 1 || SHARERS == 2 || SHARERS == 4, "columns of 32 residues at most");

/// Twiddles in shared memory: those below node `node` of a column's tree.
struct Near {
  const double* w;
  u32 node;

  template <int L>
  __device__ __forceinline__ double2 pair(int b) const {
    if constexpr (L == 0) return make_double2(w[node], 0);
    return *reinterpret_cast<const double2*>(w + (node << L) + b);
  }
};

/// Between the threads of a column: from the rows HELD·a + TURN·q + b of thread q, for all a below SHARERS and b below TURN, which the top
/// layers pair, to its rows HELD·q to HELD·q + 7. The same back again.
__device__ __forceinline__ void exchange_rows(double (&x)[HELD], u32 q) {
  UNROLL for (int bit = 1; bit < SHARERS; bit *= 2) {
    const bool second = q & bit;
    UNROLL for (int a = 0; a < SHARERS; a++) {
      if (a & bit) continue;
      UNROLL for (int b = 0; b < TURN; b++) {
        double &low = x[TURN * a + b], &high = x[TURN * (a | bit) + b];
        const double got = __shfl_xor_sync(~0u, second ? low : high, 32 / SHARERS * bit);
        low = second ? got : low;
        high = second ? high : got;
      }
    }
  }
}

/// All layers of a column forward, from residues of at most 1, which the top layers pair.
__device__ __forceinline__ void forward_columns(const Modulo& m, double (&x)[HELD], const double* w, u32 q) {
  const Near top{w, 1};
  if constexpr (SHARERS > 1) {
    forward_layer<0, false>(m, x, top);
    if constexpr (SHARERS > 2) forward_layer<1, false>(m, x, top);
    exchange_rows(x, q);
    const Near below{w, SHARERS + q};
    forward_layer<0, (SHARERS > 2)>(m, x, below);
    forward_layer<1, false>(m, x, below);
    forward_layer<2, false>(m, x, below);
  } else {
    if constexpr (LOG2_ROWS > 0) forward_layer<0, false>(m, x, top);
    if constexpr (LOG2_ROWS > 1) forward_layer<1, false>(m, x, top);
    if constexpr (LOG2_ROWS > 2) forward_layer<2, false>(m, x, top);
  }
}

/// Layer L back and its sums reduced.
template <int L>
__device__ __forceinline__ void reduced_layer(const Modulo& m, double (&x)[HELD], const Stored& twiddles) {
  backward_layer<L>(m, x, twiddles);
  UNROLL for (int i = 0; i < HELD; i++) {
    if (i % (HELD >> L) < HELD / 2 >> L) x[i] = m.reduce(x[i]);
  }
}

/// All layers of a column back, from residues of at most 1, times a factor of at most p/2, brought to p/2: as the top layers pair them.
__device__ __forceinline__ void backward_columns(const Modulo& m, double (&x)[HELD], const double* w, double factor, u32 q) {
  if constexpr (LOG2_ROWS == 0) {
    UNROLL for (int k = 0; k < HELD; k++) x[k] = m.reduce(m.mul(x[k], factor));
    return;
  }
  const Stored top{w, 1};
  if constexpr (SHARERS > 1) {
    backward_layers(m, x, Stored{w, SHARERS + q});
    exchange_rows(x, q);
    if constexpr (SHARERS > 2) reduced_layer<1>(m, x, top);
  } else {
    if constexpr (LOG2_ROWS > 2) reduced_layer<2>(m, x, top);
    if constexpr (LOG2_ROWS > 1) reduced_layer<1>(m, x, top);
  }
  // The top layer, with the factor in its twiddle.
  const double end = m.reduce(m.mul(top.pair<0>(0).x, factor));
  UNROLL for (int k = 0; k < HELD / 2; k++) {
    const double sum = x[k] + x[k + HELD / 2], difference = x[k] - x[k + HELD / 2];
    x[k] = m.reduce(m.mul(sum, factor));
    x[k + HELD / 2] = m.reduce(m.mul(difference, end));
  }
}

/// The shared memory of a block.
struct ConvertTile {
  /// Row i: the residues of each of 32 threads modulo source i, two at a time, then v.
  double2* sources;
  /// Row i: the c_i of all targets of the block, then c, the primes and their inverses; `stride` apart.
  double* factors;
  u32 stride;
  /// Twiddles of each target of the block.
  double* twiddles;

  __device__ __forceinline__ ConvertTile(double* s, u32 rows, u32 part)
      : sources(reinterpret_cast<double2*>(s) + threadIdx.x % 32),
        factors(s + rows * HELD * 32),
        stride(part),
        twiddles(factors + (rows + 2) * part) {}
  /// Residues 2k and 2k + 1 of this thread in row i.
  __device__ __forceinline__ double2& at(u32 i, u32 k) const { return sources[(i * (HELD / 2) + k) * 32]; }
};

/// Brings the constants of `count` targets into shared memory. Where they are odd in number the last one stands there twice.
__device__ __forceinline__ void load_constants(const ConvertTile& tile, const double* constants, const Target* targets, u32 count,
                                               u32 rows, const Word* words) {
  const u32 even = (count + 1) / 2 * 2;
  auto target = [&](u32 t) { return t < count ? t : count - 1; };
  LOOP
  for (u32 i = threadIdx.x; i < even * rows; i += CONVERT_THREADS) {
    const u32 t = i / rows, row = i % rows;
    tile.factors[row * tile.stride + t] = constants[target(t) * rows + row];
  }
  LOOP
  for (u32 i = threadIdx.x; i < even * TWIDDLES; i += CONVERT_THREADS) {
    const u32 t = i / TWIDDLES;
    const Word& word = words[targets[target(t)].word];
    tile.twiddles[i] = __ldg(word.forward + i % TWIDDLES);
    if (i % TWIDDLES) continue;
    tile.factors[rows * tile.stride + t] = word.p, tile.factors[(rows + 1) * tile.stride + t] = word.inverse;
  }
}

/// Puts the residues of these columns modulo this warp's sources into the tile.
__device__ __forceinline__ void load_sources(const ConvertTile& tile, const double* src, const Job* jobs, u32 sources, const Word* words,
                                             u32 q) {
  LOOP
  for (u32 i = threadIdx.x / 32; i < sources; i += CONVERT_WARPS) {
    const Job& job = jobs[i];
    const double* const from = src + u64(job.to) * N;
    double x[HELD];
    UNROLL for (int k = 0; k < HELD; k++) x[k] = __ldcg(from + APART * k);
    all_asked();
    const Word& word = words[job.word];
    backward_columns(Modulo(word), x, word.backward, job.factor, q);
    UNROLL for (int k = 0; k < HELD / 2; k++) tile.at(i, k) = make_double2(x[2 * k], x[2 * k + 1]);
  }
}

/// Puts this warp's part of v into the tile; `inverses`: 1/d_i.
__device__ __forceinline__ void load_quotients(const ConvertTile& tile, const double* inverses, u32 sources) {
  LOOP
  for (u32 k = threadIdx.x / 32; k < HELD / 2; k += CONVERT_WARPS) {
    double x = 0.0, y = 0.0;
    LOOP_4
    for (u32 i = 0; i < sources; i++) {
      const double2 a = tile.at(i, k);
      const double inverse = inverses[i];
      x = x + a.x * inverse, y = y + a.y * inverse;
    }
    tile.at(sources, k) = make_double2(rint(x), rint(y));
  }
}

/// Makes two targets from number `first` of the block on, or the last one: sums of products, and their layers forward.
__device__ __forceinline__ void combine(double* dst, const ConvertTile& tile, u32 first, u32 count, const Target* targets, u32 sources,
                                        u32 terms, u32 q) {
  Lazy sum[ABREAST][HELD];
  UNROLL for (int t = 0; t < ABREAST; t++) {
    UNROLL for (int k = 0; k < HELD; k++) sum[t][k] = Lazy(CONVERT_MAGIC, 0.0);
  }
  const double* factors = tile.factors + first;
  const double2* at = tile.sources;
  // Volatile: read where they are needed, or they would take registers all the time.
  const volatile double* const primes = factors + (sources + 1) * tile.stride;
  LOOP
  for (u32 left = sources;;) {
    // The last group takes v with it.
    const bool last = left <= terms;
    const u32 now = last ? left + 1 : terms;
    LOOP
    for (u32 i = 0; i < now; i++, at += HELD / 2 * 32, factors += tile.stride) {
      const double2 c = *reinterpret_cast<const double2*>(factors);
      UNROLL for (int k = 0; k < HELD; k += 2) {
        const double2 a = at[k / 2 * 32];
        sum[0][k].add(a.x, c.x), sum[0][k + 1].add(a.y, c.x);
        sum[1][k].add(a.x, c.y), sum[1][k + 1].add(a.y, c.y);
      }
    }
    UNROLL for (int t = 0; t < ABREAST; t++) {
      const Modulo m(primes[t], primes[tile.stride + t]);
      UNROLL for (int k = 0; k < HELD; k++) sum[t][k] = Lazy(CONVERT_MAGIC, sum[t][k].settle(m, CONVERT_MAGIC));
    }
    if (last) break;
    left -= terms;
  }
  UNROLL for (int t = 0; t < ABREAST; t++) {
    if (first + t >= count) break;
    double x[HELD];
    UNROLL for (int k = 0; k < HELD; k++) x[k] = sum[t][k].low;
    forward_columns(Modulo(primes[t], primes[tile.stride + t]), x, tile.twiddles + (first + t) * TWIDDLES, q);
    double* const out = dst + u64(targets[first + t].to) * N;
    UNROLL for (int k = 0; k < HELD; k++) out[APART * k] = x[k];
  }
}

/// Makes this block's part of the targets for its columns, from sources behind their first twelve layers back. Targets are up to 4 then.
__device__ __forceinline__ void convert(double* dst, const double* src, const Job* jobs, const Conversion& conversion,
                                        const double* constants, const Target* targets, const Word* words) {
  const u32 sources = conversion.sources, terms = conversion.terms, rows = sources + 1;
  // Parts of whole groups.
  const u32 part = (conversion.targets + ABREAST * gridDim.y - 1) / (ABREAST * gridDim.y) * ABREAST, begin = blockIdx.y * part;
  if (begin >= conversion.targets) return;
  const u32 count = part < conversion.targets - begin ? part : conversion.targets - begin;
  constants += conversion.constant, targets += conversion.target + begin, jobs += conversion.from;
  const ConvertTile tile(shared_memory<double>(), rows, part);
  load_constants(tile, constants + sources + begin * rows, targets, count, rows, words);
  // Thread q of a column: a part of a warp has the same rows of neighbouring columns.
  const u32 lane = threadIdx.x % 32, q = lane / (32 / SHARERS);
  const u32 at = blockIdx.x * (32 / SHARERS) + lane % (32 / SHARERS) + (SHARERS > 1 ? q * HELD * APART : 0);
  load_sources(tile, src + at, jobs, sources, words, q);
  if (!planted<4>()) __syncthreads();
  load_quotients(tile, constants, sources);
  if (!planted<5>()) __syncthreads();
  LOOP
  for (u32 first = threadIdx.x / 32 * ABREAST; first < count; first += CONVERT_WARPS * ABREAST) {
    combine(dst + at, tile, first, count, targets, sources, terms, q);
  }
}
