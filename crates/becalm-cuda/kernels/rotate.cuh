// Blind rotation: acc ← X^(−b̃)·T, then a step for each group of key bits, then coefficients out.
//
// Classic step: acc += ((X^e − 1)·acc) ⊡ GGSW. Step by a bundle: acc ← ⌊acc⌉ + ⌊acc⌉ ⊡ bundle (`bundle.cuh`). The accumulator
// is held as doubles in units of the last digit, so nothing is converted or scaled on the way, and the key is in these units
// too; digits are rounded by adding 1.5·2^52.
// THREADS threads own a column (a polynomial) from the digits to the sum. A column publishes the transform of its digits in
// a mailbox; after one barrier every column reads those of the others and the key. One launch for all steps of a chunk:
// * latency: a cluster of COLUMNS blocks for one ciphertext, mailboxes read through distributed shared memory, twiddle
//   factors kept in registers, one cluster barrier a step (two mailboxes, so that nobody overwrites what is being read);
// * throughput: a block for all columns of JOBS ciphertexts, which ask for the same key at the same time.
#pragma once
#include "fft.cuh"

/// The integer nearest to x, |x| < 2^51.
__device__ __forceinline__ double nearest(double x) {
  const double magic = 6755399441055744.0;
  return (x + magic) - magic;
}
/// The torus in units of the last digit.
constexpr double UNIT = double(u64(1) << (BASE_LOG * LEVEL));
/// x modulo the torus, in [−UNIT/2, UNIT/2].
__device__ __forceinline__ double wrap(double x) {
  const double magic = 6755399441055744.0 * UNIT;
  return x - ((x + magic) - magic);
}

/// A torus element in [−1/2, 1/2) in units of the last digit, and back, modulo 2^64.
__device__ __forceinline__ double from_torus(u64 a) { return __ll2double_rn(i64(a)) * (UNIT * 0x1p-64); }
__device__ __forceinline__ u64 to_torus(double x) {
  const double scaled = x * (0x1p64 / UNIT);
  return scaled >= 0x1p63 ? u64(1) << 63 : u64(__double2ll_rn(scaled));
}

/// Coefficient `j` of X^e·p, e in [0, 2N).
template <class T, class F>
__device__ __forceinline__ T rotated(int j, u32 e, F at) {
  u32 from = (u32(j) - e) & (2 * N - 1);
  T value = at(from & (N - 1));
  return from < u32(N) ? value : T(0) - value;
}

/// acc[job][column] = X^(−b̃)·T: grid (jobs), any block. `tables`: COLUMNS polynomials modulo 2^64 for each job, null for 0;
/// `exponents`: `width` a job, the last BODIES those of the bodies.
__device__ void load_table(double* acc, const u64* const* tables, const u32* exponents, u32 width) {
  const u32 job = blockIdx.x;
  for (u32 i = threadIdx.x; i < u32(COLUMNS * N); i += blockDim.x) {
    const int column = i / N;
    // A mask turns with the first body: with several bodies it is 0.
    const u32 body = exponents[u64(job) * width + width - BODIES + (column < K ? 0 : column - K)];
    const u64* polynomial = tables[u64(job) * COLUMNS + column];
    u64 value = 0;
    if (polynomial) value = rotated<u64>(i % N, (2 * N - body) & (2 * N - 1), [&](u32 at) { return polynomial[at]; });
    acc[u64(job) * COLUMNS * N + i] = from_torus(value);
  }
}

/// What is taken out of an accumulator, and where it goes.
struct Extraction {
  u64* out;
  u32 job, index;
};

/// Coefficient `index` of the accumulator of `job` as an LWE ciphertext of K·N + BODIES words: grid (extractions), any block.
__device__ void sample_extract(const Extraction* extractions, const double* acc) {
  const Extraction e = extractions[blockIdx.x];
  const u32 index = e.index, width = K * N + BODIES;
  u64* const out = e.out;
  acc += u64(e.job) * COLUMNS * N;
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
    if (i >= u32(K * N)) {
      out[i] = to_torus(acc[u64(K + i - K * N) * N + index]);
      continue;
    }
    const u32 j = i % N;
    const u64 a = to_torus(acc[i - j + ((index - j) & (N - 1))]);
    out[i] = j <= index ? a : 0 - a;
  }
}

/// The layout of a block that rotates: which threads and what shared memory a column has.
template <int CLUSTER, int JOBS>
struct RotateLayout {
  static constexpr int COLUMNS_HERE = CLUSTER > 1 ? 1 : COLUMNS * JOBS;
  static constexpr int BLOCK_THREADS = COLUMNS_HERE * THREADS;
  /// With the block's barrier in each inverse transform one mailbox is enough: see `rotate_steps`.
  static constexpr bool BLOCK_EXCHANGE = CLUSTER == 1 && THREADS > 32;
  static constexpr int MAILBOXES = BLOCK_EXCHANGE ? 1 : 2;
  static constexpr int MAIL = LEVEL * M, EXCHANGE_AT = MAILBOXES * MAIL, KEEP_AT = EXCHANGE_AT + M;
  /// Whether the accumulator lies in shared memory: a classic step turns it, and a large block wants the registers.
  static constexpr bool KEPT = CLASSIC || CLUSTER == 1;
  /// Complex values of a column.
  static constexpr int COLUMN = KEEP_AT + (KEPT ? N / 2 : 0);
  static constexpr int BYTES = COLUMNS_HERE * COLUMN * 16;
  static_assert(CLUSTER == 1 || (CLUSTER == COLUMNS && JOBS == 1), "a block for a column, or for all");
};

/// The digits of level `l`, taken off `rest`: called from the last level to the first.
__device__ __forceinline__ double take_digit(double& rest, int l) {
  if (l == 0) return rest;
  const double above = nearest(rest * (1.0 / (1u << BASE_LOG)));
  const double digit = fma(-double(1u << BASE_LOG), above, rest);
  rest = above;
  return digit;
}

/// The coefficients of a thread to where its polynomial lies.
__device__ __forceinline__ void keep(double* polynomial, const double2* a, int t) {
  UNROLL for (int r = 0; r < POINTS; r++) {
    polynomial[t + THREADS * r] = a[r].x;
    polynomial[t + THREADS * r + M] = a[r].y;
  }
}

/// Σ over rows of mail times key, for one column: rows of one column from its mailbox.
__device__ __forceinline__ void multiply(double2* sum, const double2* mail, const double2* key, int row_column, int column,
                                         int t) {
  UNROLL for (int l = 0; l < LEVEL; l++) {
    const double2* polynomial = key + ((l * COLUMNS + row_column) * COLUMNS + column) * M + t;
    UNROLL for (int r = 0; r < POINTS; r++) {
      sum[r] = multiply_add(mail[l * M + r * THREADS + t], __ldg(&polynomial[r * THREADS]), sum[r]);
    }
  }
}

/// `steps` steps of the accumulators in `acc`. `key`: [step][level][row][column][M] in the order of the transforms, the GGSW
/// of a classic step or the job's bundle; `job_stride`: values between the keys of two jobs, 0 for classic. `exponents`: the
/// first of these steps for job 0, `width` from job to job. Grid: ⌈jobs/JOBS⌉·CLUSTER blocks.
template <int CLUSTER, int JOBS, bool KEEP>
__device__ __forceinline__ void rotate_steps(double* acc, const double2* key, u64 job_stride, const u32* exponents, u32 width,
                                             u32 steps, u32 jobs, const double2* table) {
  using Layout = RotateLayout<CLUSTER, JOBS>;
  static_assert(Layout::BYTES <= 232448, "the shared memory of a block");
  static_assert(Layout::COLUMNS_HERE <= 15 || THREADS == 32, "a named barrier for each column");
  const int t = threadIdx.x % THREADS, slot = threadIdx.x / THREADS;
  int column = slot % COLUMNS;
  if (CLUSTER > 1) column = cluster_rank();
  // A job too many repeats the last one and stores nothing: every thread takes part in every barrier.
  const u32 wanted = blockIdx.x / CLUSTER * JOBS + slot / COLUMNS, job = wanted < jobs ? wanted : jobs - 1;
  double2* const block = shared_memory<double2>();
  double2* const mine = block + slot * Layout::COLUMN;
  double2* const exchange = mine + Layout::EXCHANGE_AT;
  double* const kept = reinterpret_cast<double*>(mine + Layout::KEEP_AT);
  double* const home = acc + (u64(job) * COLUMNS + column) * N;
  const Twiddles<KEEP> twiddles(table, t);
  key += job * job_stride;
  exponents += u64(job) * width;

  // With KEEP the accumulator stays here, else it comes back from `kept` when the registers are free again.
  double2 a[POINTS];
  UNROLL for (int r = 0; r < POINTS; r++) a[r] = make_double2(home[t + THREADS * r], home[t + THREADS * r + M]);
  LOOP
  for (u32 step = 0; step < steps; step++, key += ROWS * COLUMNS * M) {
    double2 rest[POINTS], sum[POINTS];
    UNROLL for (int r = 0; r < POINTS; r++) sum[r] = make_double2(0.0, 0.0);
    if (CLASSIC) {
      keep(kept, a, t);
      if (!planted<4>()) column_barrier(slot);
      const u32 e = exponents[step];
      auto turned = [&](int j) { return rotated<double>(j, e, [&](u32 at) { return kept[at]; }); };
      UNROLL for (int r = 0; r < POINTS; r++) {
        rest[r].x = nearest(wrap(turned(t + THREADS * r) - a[r].x));
        rest[r].y = nearest(wrap(turned(t + THREADS * r + M) - a[r].y));
      }
    } else {
      UNROLL for (int r = 0; r < POINTS; r++) a[r] = rest[r] = make_double2(nearest(a[r].x), nearest(a[r].y));
      if (Layout::KEPT) keep(kept, a, t);
    }
    const int box = Layout::MAILBOXES == 2 ? (step & 1) * Layout::MAIL : 0;
    double2* const mail = mine + box;
    double2 z[POINTS];
    UNROLL for (int l = LEVEL - 1; l >= 0; l--) {
      UNROLL for (int r = 0; r < POINTS; r++) {
        z[r].x = take_digit(rest[r].x, l);
        z[r].y = take_digit(rest[r].y, l);
      }
      // The last transform's leaves were read from anywhere in `exchange`.
      if (l < LEVEL - 1 && !planted<10>()) column_barrier(slot);
      fft_forward(z, exchange, twiddles, t, slot);
      UNROLL for (int r = 0; r < POINTS; r++) mail[l * M + r * THREADS + t] = z[r];
    }
    // What a thread has written itself it may read before the others are there. The order is the same on every path, and so
    // are the sums.
    if (CLUSTER > 1) cluster_arrive();
    if (LEVEL == 1) {
      const double2* polynomial = key + column * (COLUMNS + 1) * M + t;
      UNROLL for (int r = 0; r < POINTS; r++) sum[r] = z[r] * __ldg(&polynomial[r * THREADS]);
    } else {
      multiply(sum, mail, key, column, column, t);
    }
    if (CLUSTER == 1 && !planted<6>()) __syncthreads();
    if (CLUSTER > 1 && !planted<5>()) cluster_wait();
    UNROLL for (int other = 1; other < COLUMNS; other++) {
      const int from = column + other < COLUMNS ? column + other : column + other - COLUMNS;
      const double2* theirs = block + (CLUSTER > 1 ? 0 : slot - column + from) * Layout::COLUMN + box;
      if (CLUSTER > 1) theirs = map_shared(theirs, from);
      multiply(sum, theirs, key, from, column, t);
    }
    if (CLUSTER > 1 && planted<5>()) cluster_wait();
    // BLOCK_EXCHANGE: when a thread leaves this transform all have read the mail.
    fft_inverse<Layout::BLOCK_EXCHANGE>(sum, exchange, twiddles, t, slot);
    UNROLL for (int r = 0; r < POINTS; r++) {
      if (!KEEP) a[r] = make_double2(kept[t + THREADS * r], kept[t + THREADS * r + M]);
      a[r] = make_double2(wrap(a[r].x + sum[r].x), wrap(a[r].y + sum[r].y));
    }
  }
  if (wanted < jobs) keep(home, a, t);
  if (CLUSTER > 1) {
    // Nobody leaves while its mailbox is being read.
    cluster_arrive();
    if (!planted<12>()) cluster_wait();
  }
}
