// The negacyclic transform of one polynomial, M points z_j, POINTS of them in each thread: an FFT of complex numbers that
// hold two coefficients each (`complex.cuh`), or a number-theoretic transform of residues (`goldilocks.cuh`).
//
// ζ has order 2N: e^(iπ/N), or ψ modulo p. Forward: the remainder tree of X^M − ζ^(N/2), or X^N − ζ^N. A node X^L − c splits
// into X^(L/2) ∓ √c by butterflies with the factor √c, of 6 fused operations in doubles; no twist is needed. Inverse:
// decimation in time, then the twist ζ^(−j)/M. Both go through PASSES = ⌈log2 M / log2 POINTS⌉ passes in registers;
// between two passes points change hands in shared memory, in place: a thread writes what it has read, so one barrier an
// exchange is enough, and only the outermost exchange is wider than a warp. Leaf p = POINTS·t + r, in thread t and register
// r, is the value at ζ^(4·rev(p)+1), or ζ^(2·rev(p)+1), rev reversing log2 M bits.
// Cost: ½·log2 M factors a point forward, 1 more inverse; modulo p those of the first pass, the innermost ones of the
// inverse, and every second of the others' (by ζ^(N/2) = 2^48) are shifts.
#pragma once
#include "device.cuh"
#include "shape.cuh"
#if BECALM_ARITHMETIC > 0
#include "goldilocks.cuh"
#else
#include "complex.cuh"
#endif

constexpr int PASSES = (LOG2_M + LOG2_POINTS - 1) / LOG2_POINTS;
/// Levels of the last pass; it works on POINTS/2^LAST blocks at once.
constexpr int LAST = LOG2_M - (PASSES - 1) * LOG2_POINTS;
static_assert(LAST <= (EXACT ? 4 : 3), "levels that `join_first` has");
/// Twiddle factors of a pass in a thread; those of the other half of the butterflies are ζ^(N/2) times these.
constexpr int FACTORS = POINTS / 2;

/// Distance of a thread's points in a pass; also the number of threads that share a block of it.
__device__ constexpr int stride(int pass) { return pass == PASSES - 1 ? 1 : M >> ((pass + 1) * LOG2_POINTS); }

// The table of roots of unity that the kernels read: ζ^x for x < 2N, then the factors of passes 1 … of the forward
// transform (blocks times FACTORS), of the inverse transform in passes PASSES−2 … 0 (strides times FACTORS), the twist.
// `src/tables.rs` fills it in.
constexpr int ROOTS_AT = 0;
__device__ constexpr int forward_at(int pass) {
  int at = 2 * N;
  for (int p = 1; p < pass; p++) at += M / POINTS / stride(p) * FACTORS;
  return at;
}
__device__ constexpr int inverse_at(int pass) {
  int at = forward_at(PASSES);
  for (int p = PASSES - 2; p > pass; p--) at += stride(p) * FACTORS;
  return at;
}
constexpr int TWIST_AT = inverse_at(-1);

/// Twiddle factors of a thread. `KEEP`: in registers, for a kernel that has them; else read where they are needed.
template <bool KEEP>
struct Twiddles {
  const Value* table;
  __device__ __forceinline__ explicit Twiddles(const Value* table, int) : table(table) {}
  template <int PASS>
  __device__ __forceinline__ Value forward(int i, int t) const {
    constexpr int AT = forward_at(PASS), STRIDE = stride(PASS);
    return read(&table[AT + t / STRIDE * FACTORS + i]);
  }
  template <int PASS>
  __device__ __forceinline__ Value inverse(int i, int t) const {
    constexpr int AT = inverse_at(PASS), STRIDE = stride(PASS);
    return read(&table[AT + t % STRIDE * FACTORS + i]);
  }
};

template <>
struct Twiddles<true> {
  Value kept[2][PASSES - 1][FACTORS];
  const Value* table;
  __device__ __forceinline__ explicit Twiddles(const Value* table, int t) : table(table) { load<0>(t); }
  template <int PASS>
  __device__ __forceinline__ void load(int t) {
    if constexpr (PASS < PASSES - 1) {
      const Twiddles<false> all(table, t);
      UNROLL for (int i = 0; i < FACTORS; i++) {
        kept[0][PASS][i] = all.template forward<PASS + 1>(i, t);
        kept[1][PASS][i] = all.template inverse<PASS>(i, t);
      }
      load<PASS + 1>(t);
    }
  }
  template <int PASS>
  __device__ __forceinline__ Value forward(int i, int) const {
    return kept[0][PASS - 1][i];
  }
  template <int PASS>
  __device__ __forceinline__ Value inverse(int i, int) const {
    return kept[1][PASS][i];
  }
};

/// `LEVELS` levels of the remainder tree on 2^LEVELS registers. Node v of level j takes factor 2^(j−1) + v/2, times i if v is
/// odd, i = ζ^(N/2); `factor(i)` gives the i-th.
template <int LEVELS, class F>
__device__ __forceinline__ void split(Value* z, F factor) {
  UNROLL for (int j = 0; j < LEVELS; j++) {
    const int half = 1 << (LEVELS - 1 - j);
    UNROLL for (int v = 0; v < 1 << j; v++) {
      const auto even = factor(j == 0 ? 0 : (1 << (j - 1)) + v / 2), w = v & 1 ? times_i(even) : even;
      UNROLL for (int r = 0; r < half; r++) butterfly(z[2 * half * v + r], z[2 * half * v + r + half], w);
    }
  }
}

/// `LEVELS` levels of decimation in time. Registers at distance 2^j join by factor 2^(j−1) + ρ for ρ < 2^(j−1), and −i times
/// that for the others.
template <int LEVELS, class F>
__device__ __forceinline__ void join(Value* z, F factor) {
  UNROLL for (int j = 0; j < LEVELS; j++) {
    const int half = 1 << j;
    UNROLL for (int rho = 0; rho < half; rho++) {
      const auto first = factor(j == 0 ? 0 : half / 2 + rho % (half / 2 + (j == 0)));
      const auto w = j > 0 && rho >= half / 2 ? times_minus_i(first) : first;
      UNROLL for (int r = rho; r < 1 << LEVELS; r += 2 * half) butterfly(z[r], z[r + half], w);
    }
  }
}

/// The innermost pass of the inverse, whose factors are constants. Four levels are of residues alone.
template <int LEVELS, class V>
__device__ __forceinline__ void join_first(V* z) {
  UNROLL for (int r = 0; r < 1 << LEVELS; r += 2) butterfly(z[r], z[r + 1]);
  if constexpr (LEVELS > 1) {
    UNROLL for (int r = 0; r < 1 << LEVELS; r += 4) {
      butterfly(z[r], z[r + 2]);
      butterfly_minus_i(z[r + 1], z[r + 3]);
    }
  }
  if constexpr (LEVELS > 2) {
    UNROLL for (int r = 0; r < 1 << LEVELS; r += 8) {
      butterfly(z[r], z[r + 4]);
      butterfly(z[r + 1], z[r + 5], eighth_back());
      butterfly_minus_i(z[r + 2], z[r + 6]);
      butterfly(z[r + 3], z[r + 7], times_minus_i(eighth_back()));
    }
  }
  if constexpr (LEVELS > 3) {
    UNROLL for (int rho = 0; rho < 8; rho++) butterfly(z[rho], z[rho + 8], sixteenth_back(z[rho], rho));
  }
}

/// Where a point lies in shared memory: the threads that are served at once, eight for 16 bytes and sixteen for 8, never share
/// a bank, in no pass.
__device__ __forceinline__ int place(int point) { return EXACT ? point ^ ((point >> 4) & 15) : point ^ ((point >> 3) & 7); }
/// The point in register r of thread t.
template <int PASS>
__device__ __forceinline__ int point(int t, int r) {
  constexpr int H = stride(PASS);
  return t / H * (H * POINTS) + t % H + H * r;
}

template <int PASS>
__device__ __forceinline__ void put(const Value* z, Value* shared, int t) {
  UNROLL for (int r = 0; r < POINTS; r++) shared[place(point<PASS>(t, r))] = z[r];
}
template <int PASS>
__device__ __forceinline__ void get(Value* z, const Value* shared, int t) {
  UNROLL for (int r = 0; r < POINTS; r++) z[r] = shared[place(point<PASS>(t, r))];
}

/// All threads of one polynomial, the `column`-th of the block.
__device__ __forceinline__ void column_barrier(int column) {
  if (THREADS == 32) __syncwarp();
  else named_barrier(1 + column, THREADS);
}

/// The threads that exchange points between a pass and the next. `BLOCK`: where these are more than a warp, the whole block.
template <int PASS, bool BLOCK, int PLANT>
__device__ __forceinline__ void exchange_barrier(int column) {
  if (planted<PLANT>()) return;
  if (stride(PASS) <= 32) __syncwarp();
  else if (BLOCK) __syncthreads();
  else column_barrier(column);
}

template <int PASS, class T>
__device__ __forceinline__ void forward_from(Value* z, Value* shared, const T& twiddles, int t, int column) {
  if constexpr (PASS < PASSES) {
    put<PASS - 1>(z, shared, t);
    exchange_barrier<PASS - 1, false, PASS == 1 ? 1 : 2>(column);
    get<PASS>(z, shared, t);
    if constexpr (PASS < PASSES - 1) {
      split<LOG2_POINTS>(z, [&](int i) { return twiddles.template forward<PASS>(i, t); });
    } else {
      UNROLL for (int b = 0; b < POINTS >> LAST; b++) {
        split<LAST>(z + (b << LAST), [&](int i) { return twiddles.template forward<PASS>((b << LAST) / 2 + i, t); });
      }
    }
    forward_from<PASS + 1>(z, shared, twiddles, t, column);
  }
}

/// In: z[r] is point t + THREADS·r. Out: leaf POINTS·t + r. `shared`: M points that only this polynomial's threads use, and
/// that none of them reads any more outside of its own places of the first pass.
template <class T>
__device__ __forceinline__ void transform(Value* z, Value* shared, const T& twiddles, int t, int column) {
  split<LOG2_POINTS>(z, [](int i) { return first_factor(i); });
  forward_from<1>(z, shared, twiddles, t, column);
}

template <int PASS, bool BLOCK, class T>
__device__ __forceinline__ void inverse_from(Value* z, Value* shared, const T& twiddles, int t, int column) {
  if constexpr (PASS >= 0) {
    put<PASS + 1>(z, shared, t);
    exchange_barrier<PASS, BLOCK, 3>(column);
    get<PASS>(z, shared, t);
    join<LOG2_POINTS>(z, [&](int i) { return twiddles.template inverse<PASS>(i, t); });
    inverse_from<PASS - 1, BLOCK>(z, shared, twiddles, t, column);
  }
}

/// The reverse, with 1/M. In: leaves, out: points, in the same `shared`, which no other thread reads outside of the leaves'
/// places of that thread. `BLOCK`: the widest exchange is a barrier of the whole block.
template <bool BLOCK, class T>
__device__ __forceinline__ void transform_back(Value* z, Value* shared, const T& twiddles, int t, int column) {
  UNROLL for (int b = 0; b < POINTS >> LAST; b++) join_first<LAST>(z + (b << LAST));
  inverse_from<PASSES - 2, BLOCK>(z, shared, twiddles, t, column);
  UNROLL for (int r = 0; r < POINTS; r++) z[r] = z[r] * read(&twiddles.table[TWIST_AT + t + THREADS * r]);
}
