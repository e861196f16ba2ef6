// Transforms of CKKS: N residues of a prime p < 2^50 from coefficients to values and back, as `rns/word.cuh` multiplies them.
//
// A limb is a matrix of N/4096 rows of 4096 residues. The first layers of the binary tree run down its columns: `rns/convert.cuh` does
// them beside a conversion. The last twelve run along its rows: the kernels here. A thread holds 16 residues, on which it does four layers
// at a time. A block holds a row.
//
// Bounds, in units of p. A product a·w is exact while |a·w| < 2^51·p and then at most 1/2 + |a·w|/(2^52·p), which is 1/2 + |a|/8 for
// |w| <= p/2: operands of products are below 2^52, hence at most 4. Less loosely, half the last bit of the rounded product takes the place of
// |a|/16.
//   Forward, (u, v) -> (u ± w·v): x becomes x + 1/2 + x/8. From 1 four layers come to 3.84. The next layer then reduces its u alone, as its
//   product brings v below 0.88; from there four layers come to 3.6. So the first layer of every four along a row reduces eight of
//   sixteen. Behind the columns residues are up to 4. The end reduces all.
//   Backward, (u, v) -> (u + v, (u − v)·w): sums alone grow, twice a layer, so who is reduced follows from the number of the residue
//   (`grows`). The sums of the last layer of four are reduced, and then all are at most 1 again.
//   Twiddles that are made are up to 0.58: their products have operands of at most 3.4, or the twiddle is reduced.
// `tests/rns_bounds.rs` of the emulator follows these bounds.
//
// Operations on doubles for 16 residues, eight a butterfly and so 256 for four layers:
//   ntt_rows     975: 72 for 24 reductions, 87 for twiddles, 48 for the end; 96 or 160 more with a factor.
//   intt_rows    981: 126 for reductions, 87 for twiddles.
// A multiprocessor does 64 a clock, so that these are its first limit. The second is traffic: each kernel reads and writes 8 bytes a residue, of
// L2 or memory. Twiddles are few and stay in the caches: N/16 words, and one word for each sixteen residues of a row's last four layers, whose
// other fourteen twiddles are made of it. All residues of a thread are asked for at once, 128 bytes; the blocks beside compute meanwhile.
#pragma once
#include "rns/word.cuh"

/// One limb of a transform, as `becalm_cuda::rns::Job` lays it out.
struct Job {
  u32 word, from, to, other;
  double factor;
  u64 unused;
};

constexpr int TRANSFORM_THREADS = 256, TILE = 4096;
constexpr int LOG2_ROWS = LOG2_N - 12, ROWS = 1 << LOG2_ROWS;
/// Doubles of a sixteenth of a row in shared memory: one is left free behind every 16, against conflicts.
constexpr int PADDED = 272;

/// Twiddles from a table: those below node `node` of the tree. Layer L of four has 2^L of them.
struct Stored {
  const double* w;
  u32 node;

  template <int L>
  __device__ __forceinline__ double2 pair(int b) const {
    if constexpr (L == 0) return make_double2(__ldg(w + node), 0);
    return __ldg(reinterpret_cast<const double2*>(w + (node << L) + b));
  }
  /// Whether residue i of 16 is reduced before a layer backward, where all were at most 1 before layer 3.
  static __device__ constexpr bool grows(int layer, int i) { return layer == 1 ? i % 4 == 0 : layer == 0 && i == 1; }
};

/// Twiddles that are made of one, w[8k] for node k: w[4k] = w[8k]^2 and so on, w[8k + j] = w[8k]·w[j].
struct Made {
  const Modulo& m;
  const double* w;
  /// w[k], w[2k], w[4k], w[8k]. The first is reduced, as its operands may be large.
  double power[4];

  __device__ __forceinline__ Made(const Modulo& m, const double* w, double root) : m(m), w(w) {
    power[3] = root;
    power[2] = m.mul(root, root);
    power[1] = m.mul(power[2], power[2]);
    power[0] = m.reduce(m.mul(power[1], power[1]));
  }
  template <int L>
  __device__ __forceinline__ double2 pair(int b) const {
    if constexpr (L == 0) return make_double2(power[0], 0);
    const double2 head = __ldg(reinterpret_cast<const double2*>(w + b));
    return make_double2(b == 0 ? power[L] : m.mul(power[L], head.x), m.mul(power[L], head.y));
  }
  static __device__ constexpr bool grows(int layer, int i) {
    return layer == 2 ? i % 4 == 0 : layer == 1 ? i % 8 == 0 : layer == 0 && i < 2;
  }
};

template <bool REDUCE>
__device__ __forceinline__ void forward_pair(const Modulo& m, double& u, double& v, double w) {
  const double x = REDUCE ? m.reduce(u) : u, y = m.mul(v, w);
  u = x + y;
  v = x - y;
}

/// Layer L of some on a power of two of residues: pairs at a distance of half of them for L = 0.
template <int L, bool REDUCE, class T, int SIZE>
__device__ __forceinline__ void forward_layer(const Modulo& m, double (&x)[SIZE], const T& twiddles) {
  constexpr int HALF = SIZE / 2 >> L, BLOCKS = 1 << L;
  UNROLL for (int b = 0; b < BLOCKS; b += 2) {
    const double2 w = twiddles.template pair<L>(b);
    UNROLL for (int i = 2 * HALF * b; i < 2 * HALF * b + HALF; i++) {
      forward_pair<REDUCE>(m, x[i], x[i + HALF], w.x);
      if constexpr (BLOCKS > 1) forward_pair<REDUCE>(m, x[i + 2 * HALF], x[i + 3 * HALF], w.y);
    }
  }
}

/// Four layers, of which the first reduces or not.
template <bool REDUCE, class T>
__device__ __forceinline__ void forward_layers(const Modulo& m, double (&x)[16], const T& twiddles) {
  forward_layer<0, REDUCE>(m, x, twiddles);
  forward_layer<1, false>(m, x, twiddles);
  forward_layer<2, false>(m, x, twiddles);
  forward_layer<3, false>(m, x, twiddles);
}

__device__ __forceinline__ void backward_pair(const Modulo& m, double& u, double& v, double w) {
  const double x = u, y = v;
  u = x + y;
  v = m.mul(x - y, w);
}

/// Layer L of four on 16 residues, or of the first three back on 8, behind the reductions that it needs. A layer of which all residues were
/// reduced before needs none.
template <int L, class T, int SIZE>
__device__ __forceinline__ void backward_layer(const Modulo& m, double (&x)[SIZE], const T& twiddles) {
  constexpr int HALF = SIZE / 2 >> L, BLOCKS = 1 << L, SKIPPED = SIZE == 8;
  UNROLL for (int i = 0; i < SIZE; i++) {
    if (T::grows(L + SKIPPED, i)) x[i] = m.reduce(x[i]);
  }
  UNROLL for (int b = 0; b < BLOCKS; b += 2) {
    const double2 w = twiddles.template pair<L>(b);
    UNROLL for (int i = 2 * HALF * b; i < 2 * HALF * b + HALF; i++) {
      backward_pair(m, x[i], x[i + HALF], w.x);
      if constexpr (BLOCKS > 1) backward_pair(m, x[i + 2 * HALF], x[i + 3 * HALF], w.y);
    }
  }
}

/// Four layers on 16 residues or three on 8, from residues of at most 1 to such.
template <class T, int SIZE>
__device__ __forceinline__ void backward_layers(const Modulo& m, double (&x)[SIZE], const T& twiddles) {
  if constexpr (SIZE == 16) backward_layer<3>(m, x, twiddles);
  backward_layer<2>(m, x, twiddles);
  backward_layer<1>(m, x, twiddles);
  backward_layer<0>(m, x, twiddles);
  UNROLL for (int i = 0; i < SIZE / 2; i++) x[i] = m.reduce(x[i]);
}

/// Behind loads: all of them are under way before anything is computed. To save registers the compiler would put some off.
__device__ __forceinline__ void all_asked() { __syncwarp(); }

/// The place in shared memory of residue 256k + t of a row, for k = 0; `PADDED` doubles from k to k + 1.
__device__ __forceinline__ double* across(double* s, u32 t) { return s + 17 * (t / 16) + t % 16; }
/// That of residue 256·(t/16) + 16k + t%16, for k = 0; 17 doubles from k to k + 1.
__device__ __forceinline__ double* apart(double* s, u32 t) { return s + PADDED * (t / 16) + t % 16; }
/// That of residue 16t + k, for k = 0; a double from k to k + 1.
__device__ __forceinline__ double* together(double* s, u32 t) { return s + PADDED * (t / 16) + 17 * (t % 16); }

/// A thread has leaves 16t … 16t + 15 of a row. In the order of files leaves k and k + 8 of these are neighbours, 64 bytes from four
/// threads: this is where they begin.
__device__ __forceinline__ u32 file_of(u32 t) { return 64 * (t / 4) + 2 * (t % 4); }

/// The last twelve layers of a limb, along the rows, from residues up to 4.
__device__ __forceinline__ void ntt_rows(double* dst, const double* y, const Job* jobs, const Word* words, u64 dst_stride, u64 y_stride,
                                         u32 kind) {
  const Job& job = jobs[blockIdx.y];
  const u32 t = threadIdx.x;
  dst += blockIdx.z * dst_stride + u64(job.to) * N + blockIdx.x * TILE;
  double x[16];
  UNROLL for (int k = 0; k < 16; k++) x[k] = __ldcg(dst + 256 * k + t);
  all_asked();
  const Word& word = words[job.word];
  const Modulo m(word);
  const double* const w = word.forward;
  const u32 node = ROWS + blockIdx.x;
  double* const s = shared_memory<double>();
  forward_layers<true>(m, x, Stored{w, node});
  UNROLL for (int k = 0; k < 16; k++) across(s, t)[PADDED * k] = x[k];
  if (!planted<1>()) __syncthreads();
  UNROLL for (int k = 0; k < 16; k++) x[k] = apart(s, t)[17 * k];
  forward_layers<true>(m, x, Stored{w, 16 * node + t / 16});
  const double root = __ldg(w + N / 16 + blockIdx.x * (TILE / 16) + t);
  UNROLL for (int k = 0; k < 16; k++) apart(s, t)[17 * k] = x[k];
  // Sixteen threads of a warp have a sixteenth of a row.
  if (!planted<2>()) __syncwarp();
  UNROLL for (int k = 0; k < 16; k++) x[k] = together(s, t)[k];
  forward_layers<true>(m, x, Made(m, w, root));
  if (kind == 1) {
    // Found anew from the thread's number, which takes no register until here.
    const double* const less = y + blockIdx.z * y_stride + u64(job.other) * N + blockIdx.x * TILE + file_of(threadIdx.x);
    UNROLL for (int k = 0; k < 8; k++) {
      const double2 two = __ldcg(reinterpret_cast<const double2*>(less + 8 * k));
      x[k] = m.reduce(x[k]) - two.x;
      x[k + 8] = m.reduce(x[k + 8]) - two.y;
    }
  }
  if (kind != 0) {
    const double factor = job.factor;
    UNROLL for (int k = 0; k < 16; k++) x[k] = m.mul(x[k], factor);
  }
  dst += file_of(t);
  UNROLL for (int k = 0; k < 8; k++) {
    *reinterpret_cast<double2*>(dst + 8 * k) = make_double2(m.reduce(x[k]), m.reduce(x[k + 8]));
  }
}

/// The first twelve layers back.
__device__ __forceinline__ void intt_rows(double* dst, const double* src, const Job* jobs, const Word* words, u64 dst_stride,
                                          u64 src_stride) {
  const Job& job = jobs[blockIdx.y];
  const u32 t = threadIdx.x;
  src += blockIdx.z * src_stride + u64(job.from) * N + blockIdx.x * TILE + file_of(t);
  dst += blockIdx.z * dst_stride + u64(job.to) * N + blockIdx.x * TILE + t;
  double x[16];
  UNROLL for (int k = 0; k < 8; k++) {
    const double2 two = __ldcg(reinterpret_cast<const double2*>(src + 8 * k));
    x[k] = two.x;
    x[k + 8] = two.y;
  }
  all_asked();
  const Word& word = words[job.word];
  const Modulo m(word);
  const double* const w = word.backward;
  const u32 node = ROWS + blockIdx.x;
  double* const s = shared_memory<double>();
  backward_layers(m, x, Made(m, w, __ldg(w + N / 16 + blockIdx.x * (TILE / 16) + t)));
  UNROLL for (int k = 0; k < 16; k++) together(s, t)[k] = x[k];
  if (!planted<3>()) __syncwarp();
  UNROLL for (int k = 0; k < 16; k++) x[k] = apart(s, t)[17 * k];
  backward_layers(m, x, Stored{w, 16 * node + t / 16});
  UNROLL for (int k = 0; k < 16; k++) apart(s, t)[17 * k] = x[k];
  if (!planted<9>()) __syncthreads();
  UNROLL for (int k = 0; k < 16; k++) x[k] = across(s, t)[PADDED * k];
  backward_layers(m, x, Stored{w, node});
  UNROLL for (int k = 0; k < 16; k++) dst[256 * k] = x[k];
}
