// Transforms of CKKS: N residues of a prime p < 2^50 from coefficients to values and back, as `rns/word.cuh` multiplies them.
//
// A limb is a matrix of N/256 rows of 256 residues. The first layers of the binary tree run down its columns, the last eight along its rows:
// two kernels a direction, and the limb between them in memory. A thread holds 16 residues, on which it does four layers; a block holds 4096.
//
// Bounds, in units of p. A product a·w is exact while |a·w| < 2^51·p and then at most 1/2 + |a·w|/(2^52·p), which is 1/2 + |a|/8 for
// |w| <= p/2: operands of products are below 2^52, hence at most 4. Less loosely, half the last bit of the rounded product takes the place of
// |a|/16.
//   Forward, (u, v) -> (u ± w·v): x becomes x + 1/2 + x/8. From 1 four layers come to 3.84. The next layer then reduces its u alone, as its
//   product brings v below 0.88; from there four layers come to 3.6. So the first layer of every four but the very first reduces eight of
//   sixteen. Between the two kernels residues are up to 4. The end reduces all.
//   Backward, (u, v) -> (u + v, (u − v)·w): sums alone grow, twice a layer, so who is reduced follows from the number of the residue
//   (`grows`). The sums of the last layer of four are reduced, and then all are at most 1 again.
//   Twiddles that are made are up to 0.58: their products have operands of at most 3.4, or the twiddle is reduced.
// `tests/rns_bounds.rs` of the emulator follows these bounds.
//
// Operations on doubles for 16 residues, N = 2^16, by kernel: eight a butterfly are 512, and
//   ntt_columns  536: 24 for eight reductions.
//   ntt_rows     695: 48 for sixteen reductions, 87 for twiddles, 48 for the end; 96 or 160 more with a factor.
//   intt_rows    686: 87 for reductions, 87 for twiddles.
//   intt_columns 671: 54 for reductions, 57 for the factor, 48 for the end.
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
constexpr int LOG2_ROWS = LOG2_N - 8, ROWS = 1 << LOG2_ROWS;
/// Columns of a block, and threads of a column.
constexpr int COLUMNS = TILE / ROWS, SPLIT = ROWS / 16;
/// Whether columns have nine layers: the ninth is between two threads.
constexpr bool NINTH = LOG2_ROWS > 8;
/// Of the four layers that a thread does on rows 16t … 16t + 15, the first that is left after the four before.
constexpr int REST = NINTH ? 0 : 8 - LOG2_ROWS;
/// Doubles of a row in shared memory: one is left free behind every 16, against conflicts.
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

/// Layer L of four on 16 residues: pairs at a distance of 8 >> L.
template <int L, bool REDUCE, class T>
__device__ __forceinline__ void forward_layer(const Modulo& m, double (&x)[16], const T& twiddles) {
  constexpr int HALF = 8 >> L, BLOCKS = 1 << L;
  UNROLL for (int b = 0; b < BLOCKS; b += 2) {
    const double2 w = twiddles.template pair<L>(b);
    UNROLL for (int i = 2 * HALF * b; i < 2 * HALF * b + HALF; i++) {
      forward_pair<REDUCE>(m, x[i], x[i + HALF], w.x);
      if constexpr (BLOCKS > 1) forward_pair<REDUCE>(m, x[i + 2 * HALF], x[i + 3 * HALF], w.y);
    }
  }
}

/// Layers FIRST … 3 of four, of which the first reduces or not.
template <int FIRST, bool REDUCE, class T>
__device__ __forceinline__ void forward_layers(const Modulo& m, double (&x)[16], const T& twiddles) {
  if constexpr (FIRST <= 0) forward_layer<0, REDUCE>(m, x, twiddles);
  if constexpr (FIRST <= 1) forward_layer<1, REDUCE && FIRST == 1>(m, x, twiddles);
  if constexpr (FIRST <= 2) forward_layer<2, REDUCE && FIRST == 2>(m, x, twiddles);
  forward_layer<3, REDUCE && FIRST == 3>(m, x, twiddles);
}

__device__ __forceinline__ void backward_pair(const Modulo& m, double& u, double& v, double w) {
  const double x = u, y = v;
  u = x + y;
  v = m.mul(x - y, w);
}

/// Layer L of four on 16 residues, behind the reductions that it needs.
template <int L, class T>
__device__ __forceinline__ void backward_layer(const Modulo& m, double (&x)[16], const T& twiddles) {
  constexpr int HALF = 8 >> L, BLOCKS = 1 << L;
  UNROLL for (int i = 0; i < 16; i++) {
    if (T::grows(L, i)) x[i] = m.reduce(x[i]);
  }
  UNROLL for (int b = 0; b < BLOCKS; b += 2) {
    const double2 w = twiddles.template pair<L>(b);
    UNROLL for (int i = 2 * HALF * b; i < 2 * HALF * b + HALF; i++) {
      backward_pair(m, x[i], x[i + HALF], w.x);
      if constexpr (BLOCKS > 1) backward_pair(m, x[i + 2 * HALF], x[i + 3 * HALF], w.y);
    }
  }
}

/// Layers 3 … FIRST of four, from residues of at most 1 to such.
template <int FIRST, class T>
__device__ __forceinline__ void backward_layers(const Modulo& m, double (&x)[16], const T& twiddles) {
  backward_layer<3>(m, x, twiddles);
  if constexpr (FIRST <= 2) backward_layer<2>(m, x, twiddles);
  if constexpr (FIRST <= 1) backward_layer<1>(m, x, twiddles);
  if constexpr (FIRST <= 0) backward_layer<0>(m, x, twiddles);
  constexpr int HALF = 8 >> FIRST;
  UNROLL for (int i = 0; i < 16; i++) {
    if (i % (2 * HALF) < HALF) x[i] = m.reduce(x[i]);
  }
}

/// The last four layers, times a factor of at most p/2, brought to p/2.
__device__ __forceinline__ void backward_end(const Modulo& m, double (&x)[16], const Stored& twiddles, double factor) {
  backward_layer<3>(m, x, twiddles);
  backward_layer<2>(m, x, twiddles);
  backward_layer<1>(m, x, twiddles);
  const double w = m.reduce(m.mul(twiddles.pair<0>(0).x, factor));
  UNROLL for (int i = 0; i < 8; i++) {
    const double u = Stored::grows(0, i) ? m.reduce(x[i]) : x[i], v = x[i + 8];
    x[i] = m.reduce(m.mul(u + v, factor));
    x[i + 8] = m.reduce(m.mul(u - v, w));
  }
}

/// Of the 16 residues of thread t between the first four layers of a column and the others: the row of the first, and rows to the next.
__device__ __forceinline__ u32 first_row(u32 t) { return NINTH ? 32 * (t >> 1) + (t & 1) : 16 * t; }
constexpr int NEXT_ROW = NINTH ? 2 : 1;

/// The node above these residues of thread t in the layer of as many nodes as sixteen rows make.
__device__ __forceinline__ u32 node_of(u32 t) { return NINTH ? 16 + (t >> 1) : SPLIT + t; }

/// Between two threads that have 16 residues each, those of even and those of odd rows: the first has the first eight pairs then, k and
/// k + 8, and the second the others. The same back again.
__device__ __forceinline__ void exchange_pairs(double (&x)[16], bool second) {
  UNROLL for (int k = 0; k < 8; k++) {
    const double got = __shfl_xor_sync(~0u, second ? x[k] : x[k + 8], COLUMNS);
    x[k] = second ? got : x[k];
    x[k + 8] = second ? x[k + 8] : got;
  }
}

/// Twiddle k of eight of the ninth layer of a column.
__device__ __forceinline__ double2 ninth(const double* w, u32 t, int k) {
  return __ldg(reinterpret_cast<const double2*>(w + ROWS / 2 + 16 * (t >> 1) + 8 * (t & 1) + k));
}

/// The rows of residues k of a thread in memory, outside the columns' first four layers: from 16t on, after an exchange pair by pair.
__device__ constexpr int file_row(int k) { return NINTH ? 2 * (k % 8) + k / 8 : k; }

/// Behind loads: all of them are under way before anything is computed. To save registers the compiler would put some off.
__device__ __forceinline__ void all_asked() { __syncwarp(); }

/// The first layers of a limb, down the columns. Residues are up to 4 behind them.
__device__ __forceinline__ void ntt_columns(double* dst, const double* src, const Job* jobs, const Word* words, u64 dst_stride,
                                            u64 src_stride) {
  const Job& job = jobs[blockIdx.y];
  const u32 column = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS, at = blockIdx.x * COLUMNS + column;
  src += blockIdx.z * src_stride + u64(job.from) * N + 256 * t + at;
  dst += blockIdx.z * dst_stride + u64(job.to) * N + 256 * 16 * t + at;
  double x[16];
  UNROLL for (int k = 0; k < 16; k++) x[k] = __ldcg(src + 256 * SPLIT * k);
  all_asked();
  const Word& word = words[job.word];
  const Modulo m(word);
  const double* const w = word.forward;
  forward_layers<0, false>(m, x, Stored{w, 1});
  if constexpr (SPLIT > 1) {
    double* const s = shared_memory<double>() + column;
    double *const to = s + COLUMNS * t, *const from = s + COLUMNS * first_row(t);
    UNROLL for (int k = 0; k < 16; k++) to[COLUMNS * SPLIT * k] = x[k];
    if (!planted<1>()) __syncthreads();
    UNROLL for (int k = 0; k < 16; k++) x[k] = from[COLUMNS * NEXT_ROW * k];
    forward_layers<REST, true>(m, x, Stored{w, node_of(t)});
  }
  if constexpr (NINTH) {
    exchange_pairs(x, t & 1);
    UNROLL for (int k = 0; k < 8; k += 2) {
      const double2 pair = ninth(w, t, k);
      forward_pair<true>(m, x[k], x[k + 8], pair.x);
      forward_pair<true>(m, x[k + 1], x[k + 9], pair.y);
    }
  }
  UNROLL for (int k = 0; k < 16; k++) dst[256 * file_row(k)] = x[k];
}

/// A thread has leaves 16t … 16t + 15 of a row. In the order of files leaves k and k + 8 of these are neighbours, 64 bytes from four
/// threads: this is where they begin.
__device__ __forceinline__ u32 file_of(u32 t) { return 64 * (t / 4) + 2 * (t % 4); }

/// The last eight layers of a limb, along the rows, each by 16 threads of a warp.
__device__ __forceinline__ void ntt_rows(double* dst, const double* y, const Job* jobs, const Word* words, u64 dst_stride, u64 y_stride,
                                         u32 kind) {
  const Job& job = jobs[blockIdx.y];
  const u32 t = threadIdx.x % 16, row = blockIdx.x * 16 + threadIdx.x / 16;
  dst += blockIdx.z * dst_stride + u64(job.to) * N + 256 * row + t;
  double x[16];
  UNROLL for (int k = 0; k < 16; k++) x[k] = __ldcg(dst + 16 * k);
  all_asked();
  const Word& word = words[job.word];
  const Modulo m(word);
  const double* const w = word.forward;
  forward_layers<0, true>(m, x, Stored{w, ROWS + row});
  const double root = __ldg(w + N / 16 + 16 * row + t);
  double* const s = shared_memory<double>() + PADDED * (threadIdx.x / 16);
  double *const apart = s + t, *const together = s + 17 * t;
  UNROLL for (int k = 0; k < 16; k++) apart[17 * k] = x[k];
  if (!planted<2>()) __syncwarp();
  UNROLL for (int k = 0; k < 16; k++) x[k] = together[k];
  forward_layers<0, true>(m, x, Made(m, w, root));
  if (kind == 1) {
    // Found anew from the thread's number, which takes no register until here.
    const double* const less =
        y + blockIdx.z * y_stride + u64(job.other) * N + blockIdx.x * TILE + 256 * (threadIdx.x / 16) + file_of(threadIdx.x % 16);
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
  dst += file_of(t) - t;
  UNROLL for (int k = 0; k < 8; k++) {
    *reinterpret_cast<double2*>(dst + 8 * k) = make_double2(m.reduce(x[k]), m.reduce(x[k + 8]));
  }
}

/// The first eight layers back.
__device__ __forceinline__ void intt_rows(double* dst, const double* src, const Job* jobs, const Word* words, u64 dst_stride,
                                          u64 src_stride) {
  const Job& job = jobs[blockIdx.y];
  const u32 t = threadIdx.x % 16, row = blockIdx.x * 16 + threadIdx.x / 16;
  src += blockIdx.z * src_stride + u64(job.from) * N + 256 * row + file_of(t);
  dst += blockIdx.z * dst_stride + u64(job.to) * N + 256 * row + t;
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
  backward_layers<0>(m, x, Made(m, w, __ldg(w + N / 16 + 16 * row + t)));
  double* const s = shared_memory<double>() + PADDED * (threadIdx.x / 16);
  double *const apart = s + t, *const together = s + 17 * t;
  UNROLL for (int k = 0; k < 16; k++) together[k] = x[k];
  if (!planted<3>()) __syncwarp();
  UNROLL for (int k = 0; k < 16; k++) x[k] = apart[17 * k];
  backward_layers<0>(m, x, Stored{w, ROWS + row});
  UNROLL for (int k = 0; k < 16; k++) dst[16 * k] = x[k];
}

/// The rest, up the columns, in place, times the job's factor.
__device__ __forceinline__ void intt_columns(double* dst, const Job* jobs, const Word* words, u64 dst_stride) {
  const Job& job = jobs[blockIdx.y];
  const u32 column = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS, at = blockIdx.x * COLUMNS + column;
  dst += blockIdx.z * dst_stride + u64(job.to) * N + at;
  double x[16];
  const double* const src = dst + 256 * 16 * t;
  UNROLL for (int k = 0; k < 16; k++) x[k] = __ldcg(src + 256 * file_row(k));
  all_asked();
  const Word& word = words[job.word];
  const Modulo m(word);
  const double* const w = word.backward;
  if constexpr (NINTH) {
    UNROLL for (int k = 0; k < 8; k += 2) {
      const double2 pair = ninth(w, t, k);
      backward_pair(m, x[k], x[k + 8], pair.x);
      backward_pair(m, x[k + 1], x[k + 9], pair.y);
      x[k] = m.reduce(x[k]);
      x[k + 1] = m.reduce(x[k + 1]);
    }
    exchange_pairs(x, t & 1);
  }
  if constexpr (SPLIT > 1) {
    backward_layers<REST>(m, x, Stored{w, node_of(t)});
    double* const s = shared_memory<double>() + column;
    double *const to = s + COLUMNS * first_row(t), *const from = s + COLUMNS * t;
    UNROLL for (int k = 0; k < 16; k++) to[COLUMNS * NEXT_ROW * k] = x[k];
    if (!planted<4>()) __syncthreads();
    UNROLL for (int k = 0; k < 16; k++) x[k] = from[COLUMNS * SPLIT * k];
  }
  backward_end(m, x, Stored{w, 1}, job.factor);
  dst += 256 * t;
  UNROLL for (int k = 0; k < 16; k++) dst[256 * SPLIT * k] = x[k];
}
