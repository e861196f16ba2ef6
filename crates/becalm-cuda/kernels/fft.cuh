// The negacyclic FFT: N real coefficients as M = N/2 complex points z_j = a_j + i·a_(j+M), POINTS of them in each thread.
//
// Forward: the remainder tree of X^M − i. A node X^L − e^(iθ) splits into X^(L/2) ∓ e^(iθ/2) by butterflies of 6 fused
// operations; no twist is needed. Inverse: decimation in time, then the twist e^(−iπj/N)/M. Both go through
// PASSES = ⌈log2 M / log2 POINTS⌉ passes in registers; between two passes points change hands in shared memory, in place:
// a thread writes what it has read, so one barrier an exchange is enough, and only the outermost exchange is wider than a
// warp. Leaf p = POINTS·t + r, in thread t and register r, is the value at e^(iπ(4·rev(p)+1)/N), rev reversing log2 M bits.
// Cost: 3·log2 M fused operations a point forward, 4 more inverse.
#pragma once
#include "device.cuh"
#include "shape.cuh"

__device__ __forceinline__ double2 times_i(double2 a) { return make_double2(-a.y, a.x); }
__device__ __forceinline__ double2 operator+(double2 a, double2 b) { return make_double2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ double2 operator-(double2 a, double2 b) { return make_double2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ double2 operator*(double2 a, double2 b) {
  return make_double2(fma(a.x, b.x, -(a.y * b.y)), fma(a.x, b.y, a.y * b.x));
}
/// a·b + c
__device__ __forceinline__ double2 multiply_add(double2 a, double2 b, double2 c) {
  return make_double2(fma(a.x, b.x, fma(-a.y, b.y, c.x)), fma(a.x, b.y, fma(a.y, b.x, c.y)));
}
/// (a + w·b, a − w·b), the second as 2a − (a + w·b).
__device__ __forceinline__ void butterfly(double2& a, double2& b, double2 w) {
  double2 sum = multiply_add(w, b, a);
  b = make_double2(fma(2.0, a.x, -sum.x), fma(2.0, a.y, -sum.y));
  a = sum;
}
__device__ __forceinline__ void butterfly(double2& a, double2& b) {
  double2 sum = a + b;
  b = a - b;
  a = sum;
}
/// (a − i·b, a + i·b)
__device__ __forceinline__ void butterfly_minus_i(double2& a, double2& b) {
  double2 turned = make_double2(b.y, -b.x);
  b = a - turned;
  a = a + turned;
}

constexpr int PASSES = (LOG2_M + LOG2_POINTS - 1) / LOG2_POINTS;
/// Levels of the last pass; it works on POINTS/2^LAST blocks at once.
constexpr int LAST = LOG2_M - (PASSES - 1) * LOG2_POINTS;
/// Twiddle factors of a pass in a thread; those of the other half of the butterflies are i times these.
constexpr int FACTORS = POINTS / 2;

/// Distance of a thread's points in a pass; also the number of threads that share a block of it.
__device__ constexpr int stride(int pass) { return pass == PASSES - 1 ? 1 : M >> ((pass + 1) * LOG2_POINTS); }

// The table of roots of unity that the kernels read: e^(iπx/N) for x < 2N, then the factors of passes 1 … of the forward
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

/// e^(iπ/4), e^(iπ/8), e^(iπ/16), e^(5iπ/16): factors of the first pass, the same for every thread.
__device__ __forceinline__ double2 first_factor(int i) {
  return i == 0   ? make_double2(0.70710678118654752440, 0.70710678118654752440)
         : i == 1 ? make_double2(0.92387953251128675613, 0.38268343236508977173)
         : i == 2 ? make_double2(0.98078528040323044913, 0.19509032201612826785)
                  : make_double2(0.55557023301960222474, 0.83146961230254523708);
}

/// Twiddle factors of a thread. `KEEP`: in registers, for a kernel that has them; else read where they are needed.
template <bool KEEP>
struct Twiddles {
  const double2* table;
  __device__ __forceinline__ explicit Twiddles(const double2* table, int) : table(table) {}
  template <int PASS>
  __device__ __forceinline__ double2 forward(int i, int t) const {
    constexpr int AT = forward_at(PASS), STRIDE = stride(PASS);
    return __ldg(&table[AT + t / STRIDE * FACTORS + i]);
  }
  template <int PASS>
  __device__ __forceinline__ double2 inverse(int i, int t) const {
    constexpr int AT = inverse_at(PASS), STRIDE = stride(PASS);
    return __ldg(&table[AT + t % STRIDE * FACTORS + i]);
  }
};

template <>
struct Twiddles<true> {
  double2 kept[2][PASSES - 1][FACTORS];
  const double2* table;
  __device__ __forceinline__ explicit Twiddles(const double2* table, int t) : table(table) { load<0>(t); }
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
  __device__ __forceinline__ double2 forward(int i, int) const {
    return kept[0][PASS - 1][i];
  }
  template <int PASS>
  __device__ __forceinline__ double2 inverse(int i, int) const {
    return kept[1][PASS][i];
  }
};

/// `LEVELS` levels of the remainder tree on 2^LEVELS registers. Node v of level j takes factor 2^(j−1) + v/2, times i if v is
/// odd; `factor(i)` gives the i-th.
template <int LEVELS, class F>
__device__ __forceinline__ void split(double2* z, F factor) {
  UNROLL for (int j = 0; j < LEVELS; j++) {
    const int half = 1 << (LEVELS - 1 - j);
    UNROLL for (int v = 0; v < 1 << j; v++) {
      double2 w = factor(j == 0 ? 0 : (1 << (j - 1)) + v / 2);
      if (v & 1) w = times_i(w);
      UNROLL for (int r = 0; r < half; r++) butterfly(z[2 * half * v + r], z[2 * half * v + r + half], w);
    }
  }
}

/// `LEVELS` levels of decimation in time. Registers at distance 2^j join by factor 2^(j−1) + ρ for ρ < 2^(j−1), and −i times
/// that for the others.
template <int LEVELS, class F>
__device__ __forceinline__ void join(double2* z, F factor) {
  UNROLL for (int j = 0; j < LEVELS; j++) {
    const int half = 1 << j;
    UNROLL for (int rho = 0; rho < half; rho++) {
      double2 w = factor(j == 0 ? 0 : half / 2 + rho % (half / 2 + (j == 0)));
      if (j > 0 && rho >= half / 2) w = make_double2(w.y, -w.x);
      UNROLL for (int r = rho; r < 1 << LEVELS; r += 2 * half) butterfly(z[r], z[r + half], w);
    }
  }
}

/// The innermost pass of the inverse, whose factors are constants.
template <int LEVELS>
__device__ __forceinline__ void join_first(double2* z) {
  UNROLL for (int r = 0; r < 1 << LEVELS; r += 2) butterfly(z[r], z[r + 1]);
  if constexpr (LEVELS > 1) {
    UNROLL for (int r = 0; r < 1 << LEVELS; r += 4) {
      butterfly(z[r], z[r + 2]);
      butterfly_minus_i(z[r + 1], z[r + 3]);
    }
  }
  if constexpr (LEVELS > 2) {
    const double2 eighth = make_double2(0.70710678118654752440, -0.70710678118654752440);
    butterfly(z[0], z[4]);
    butterfly(z[1], z[5], eighth);
    butterfly_minus_i(z[2], z[6]);
    butterfly(z[3], z[7], make_double2(eighth.y, -eighth.x));
  }
}

/// Where a point lies in shared memory: eight threads of a warp never share a bank, in no pass.
__device__ __forceinline__ int place(int point) { return point ^ ((point >> 3) & 7); }
/// The point in register r of thread t.
template <int PASS>
__device__ __forceinline__ int point(int t, int r) {
  constexpr int H = stride(PASS);
  return t / H * (H * POINTS) + t % H + H * r;
}

template <int PASS>
__device__ __forceinline__ void put(const double2* z, double2* shared, int t) {
  UNROLL for (int r = 0; r < POINTS; r++) shared[place(point<PASS>(t, r))] = z[r];
}
template <int PASS>
__device__ __forceinline__ void get(double2* z, const double2* shared, int t) {
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
__device__ __forceinline__ void forward_from(double2* z, double2* shared, const T& twiddles, int t, int column) {
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
__device__ __forceinline__ void fft_forward(double2* z, double2* shared, const T& twiddles, int t, int column) {
  split<LOG2_POINTS>(z, [](int i) { return first_factor(i); });
  forward_from<1>(z, shared, twiddles, t, column);
}

template <int PASS, bool BLOCK, class T>
__device__ __forceinline__ void inverse_from(double2* z, double2* shared, const T& twiddles, int t, int column) {
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
__device__ __forceinline__ void fft_inverse(double2* z, double2* shared, const T& twiddles, int t, int column) {
  UNROLL for (int b = 0; b < POINTS >> LAST; b++) join_first<LAST>(z + (b << LAST));
  inverse_from<PASSES - 2, BLOCK>(z, shared, twiddles, t, column);
  UNROLL for (int r = 0; r < POINTS; r++) z[r] = z[r] * __ldg(&twiddles.table[TWIST_AT + t + THREADS * r]);
}
