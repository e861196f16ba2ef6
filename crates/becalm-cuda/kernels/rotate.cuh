// Blind rotation: acc ← X^(−b̃)·T, then a step for each group of key bits, then coefficients out.
//
// Classic step: acc += ((X^e − 1)·acc) ⊡ GGSW. Step by a bundle: acc ← ⌊acc⌉ + ⌊acc⌉ ⊡ bundle (`bundle.cuh`). Coefficients are
// doubles (`complex.cuh`) or residues (`goldilocks.cuh`).
// THREADS threads own a column (a polynomial) from the digits to the sum. A column publishes the transform of its digits in
// a mailbox; after one barrier every column reads those of the others and the key. One launch for all steps of a chunk:
// * latency: a cluster of COLUMNS blocks for one ciphertext, mailboxes read through distributed shared memory, twiddle
//   factors kept in registers, one cluster barrier a step (two mailboxes, so that no block overwrites what is being read);
// * throughput: a block for all columns of JOBS ciphertexts, which ask for the same key at the same time.
#pragma once
#include "transform.cuh"

/// Coefficient `j` of X^e·p, e in [0, 2N).
template <class T, class F>
__device__ __forceinline__ T rotated(int j, u32 e, F at) {
  u32 from = (u32(j) - e) & (2 * N - 1);
  T value = at(from & (N - 1));
  return from < u32(N) ? value : opposite(value);
}

/// acc[job][column] = X^(−b̃)·T: grid (jobs), any block. `tables`: COLUMNS polynomials of words for each job, null for 0;
/// `exponents`: `width` a job, the last BODIES those of the bodies.
__device__ void load_table(Coefficient* acc, const u64* const* tables, const u32* exponents, u32 width) {
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

/// A ciphertext to extract from an accumulator, and its destination.
struct Extraction {
  u64* out;
  u32 job, index;
};

/// Coefficient `index` of the accumulator of `job` as an LWE ciphertext of K·N + BODIES words: grid (extractions), any block.
__device__ void sample_extract(const Extraction* extractions, const Coefficient* acc) {
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
    out[i] = j <= index ? a : opposite(a);
  }
}

/// Shared memory that a block may have where there are clusters and doubles are fast: 227 KiB.
constexpr int MOST_SHARED = 232448;

/// The layout of a block that rotates: which threads and what shared memory a column has.
template <int CLUSTER, int JOBS>
struct RotateLayout {
  static constexpr int COLUMNS_HERE = CLUSTER > 1 ? 1 : COLUMNS * JOBS;
  static constexpr int BLOCK_THREADS = COLUMNS_HERE * THREADS;
  /// With the block's barrier in each inverse transform one mailbox is enough: see `rotate_steps`.
  static constexpr bool BLOCK_EXCHANGE = CLUSTER == 1 && THREADS > 32;
  static constexpr int MAILBOXES = BLOCK_EXCHANGE ? 1 : 2;
  static constexpr int MAIL = LEVEL * M;
  /// Whether a column has no room for its mailboxes beside a transform: then they lie in global memory, behind the
  /// accumulators of all jobs, and the accumulator stays in its place.
  static constexpr bool FAR = CLUSTER > 1 && i64(MAILBOXES * LEVEL + 1 + CLASSIC) * M * int(sizeof(Value)) > MOST_SHARED;
  static constexpr int EXCHANGE_AT = FAR ? 0 : MAILBOXES * MAIL, KEEP_AT = EXCHANGE_AT + M;
  /// Whether the accumulator lies in memory: a classic step turns it, and a large block wants the registers.
  static constexpr bool KEPT = CLASSIC || CLUSTER == 1 || FAR;
  /// Values of a column in shared memory.
  static constexpr int COLUMN = KEEP_AT + (KEPT && !FAR ? M : 0);
  static constexpr int BYTES = COLUMNS_HERE * COLUMN * int(sizeof(Value));
  static_assert(CLUSTER == 1 || (CLUSTER == COLUMNS && JOBS == 1), "a block for a column, or for all");
};

/// The coefficients of a thread to where its polynomial lies.
__device__ __forceinline__ void keep(Coefficient* polynomial, const Value* a, int t) {
  UNROLL for (int r = 0; r < POINTS; r++) scatter(polynomial, t + THREADS * r, a[r]);
}
__device__ __forceinline__ Value kept_point(const Coefficient* polynomial, int j) {
  return gather(j, [&](int at) { return polynomial[at]; });
}

/// Σ over rows of mail times key, for one column: rows of one column from its mailbox. `FEW`: registers are few.
template <bool FEW>
__device__ __forceinline__ void multiply(Value* sum, const Value* mail, const Value* key, int row_column, int column,
                                         int t) {
  auto level = [&](int l) {
    const Value* polynomial = key + ((l * COLUMNS + row_column) * COLUMNS + column) * M + t;
    UNROLL for (int r = 0; r < POINTS; r++) {
      sum[r] = multiply_add(mail[l * M + r * THREADS + t], read(&polynomial[r * THREADS]), sum[r]);
    }
  };
  if (FEW) {
    LOOP
    for (int l = 0; l < LEVEL; l++) level(l);
  } else {
    UNROLL for (int l = 0; l < LEVEL; l++) level(l);
  }
}

/// `steps` steps of the accumulators in `acc`. `key`: [step][level][row][column][M] in the order of the transforms, the GGSW
/// of a classic step or the job's bundle; `job_stride`: values between the keys of two jobs, 0 for classic. `exponents`: the
/// first of these steps for job 0, `width` from job to job. Grid: ⌈jobs/JOBS⌉·CLUSTER blocks. Where the layout is FAR two
/// mailboxes for each column lie behind the `jobs` accumulators.
template <int CLUSTER, int JOBS, bool KEEP>
__device__ __forceinline__ void rotate_steps(Coefficient* acc, const Value* key, u64 job_stride, const u32* exponents, u32 width,
                                             u32 steps, u32 jobs, const Value* table) {
  using Layout = RotateLayout<CLUSTER, JOBS>;
  static_assert(Layout::BYTES <= MOST_SHARED, "the shared memory of a block");
  static_assert(Layout::COLUMNS_HERE <= 15 || THREADS == 32, "a named barrier for each column");
  const int t = threadIdx.x % THREADS, slot = threadIdx.x / THREADS;
  int column = slot % COLUMNS;
  if (CLUSTER > 1) column = cluster_rank();
  // A job too many repeats the last one and stores nothing: every thread takes part in every barrier.
  const u32 wanted = blockIdx.x / CLUSTER * JOBS + slot / COLUMNS, job = wanted < jobs ? wanted : jobs - 1;
  Value* const block = shared_memory<Value>();
  Value* const mine = block + slot * Layout::COLUMN;
  Value* const exchange = mine + Layout::EXCHANGE_AT;
  Coefficient* const home = acc + (u64(job) * COLUMNS + column) * N;
  Coefficient* const kept = Layout::FAR ? home : reinterpret_cast<Coefficient*>(mine + Layout::KEEP_AT);
  // Mailboxes of the job's first column.
  Value* const far = reinterpret_cast<Value*>(acc + u64(jobs) * COLUMNS * N) + u64(job) * COLUMNS * 2 * Layout::MAIL;
  const Twiddles<KEEP> twiddles(table, t);
  key += job * job_stride;
  exponents += u64(job) * width;

  // With KEEP the accumulator stays here, else it comes back from `kept`, where there is that, when the registers are free.
  Value a[POINTS];
  UNROLL for (int r = 0; r < POINTS; r++) a[r] = kept_point(home, t + THREADS * r);
  LOOP
  for (u32 step = 0; step < steps; step++, key += ROWS * COLUMNS * M) {
    Rest rest[POINTS];
    Value sum[POINTS];
    UNROLL for (int r = 0; r < POINTS; r++) sum[r] = zero();
    if (CLASSIC) {
      keep(kept, a, t);
      if (!planted<4>()) column_barrier(slot);
      const u32 e = exponents[step];
      auto turned = [&](int j) { return rotated<Coefficient>(j, e, [&](u32 at) { return kept[at]; }); };
      UNROLL for (int r = 0; r < POINTS; r++) rest[r] = difference(gather(t + THREADS * r, turned), a[r]);
    } else {
      UNROLL for (int r = 0; r < POINTS; r++) rest[r] = rounded(a[r]);
      if (Layout::KEPT) keep(kept, a, t);
    }
    const int box = Layout::MAILBOXES == 2 ? (step & 1) * Layout::MAIL : 0;
    Value* const mail = (Layout::FAR ? far + column * 2 * Layout::MAIL : mine) + box;
    Value z[POINTS];
    auto send = [&](int l) {
      UNROLL for (int r = 0; r < POINTS; r++) z[r] = take_digit(rest[r], l);
      // The last transform's leaves were read from anywhere in `exchange`.
      if (l < LEVEL - 1 && !planted<10>()) column_barrier(slot);
      transform(z, exchange, twiddles, t, slot);
      UNROLL for (int r = 0; r < POINTS; r++) mail[l * M + r * THREADS + t] = z[r];
    };
    // Where registers are few the digits of one level at a time.
    if (Layout::FAR) {
      LOOP
      for (int l = LEVEL - 1; l >= 0; l--) send(l);
    } else {
      UNROLL for (int l = LEVEL - 1; l >= 0; l--) send(l);
    }
    // A thread may read its own writes before the other threads arrive. The order is the same on every path, and so
    // are the sums.
    if (CLUSTER > 1) cluster_arrive();
    if (LEVEL == 1) {
      const Value* polynomial = key + column * (COLUMNS + 1) * M + t;
      UNROLL for (int r = 0; r < POINTS; r++) sum[r] = z[r] * read(&polynomial[r * THREADS]);
    } else {
      multiply<Layout::FAR>(sum, mail, key, column, column, t);
    }
    if (CLUSTER == 1 && !planted<6>()) __syncthreads();
    if (CLUSTER > 1 && !planted<5>()) cluster_wait();
    UNROLL for (int other = 1; other < COLUMNS; other++) {
      const int from = column + other < COLUMNS ? column + other : column + other - COLUMNS;
      const Value* theirs = block + (CLUSTER > 1 ? 0 : slot - column + from) * Layout::COLUMN + box;
      if (Layout::FAR) theirs = far + from * 2 * Layout::MAIL + box;
      else if (CLUSTER > 1) theirs = map_shared(theirs, from);
      multiply<Layout::FAR>(sum, theirs, key, from, column, t);
    }
    if (CLUSTER > 1 && planted<5>()) cluster_wait();
    // BLOCK_EXCHANGE: when a thread leaves this transform all have read the mail.
    transform_back<Layout::BLOCK_EXCHANGE>(sum, exchange, twiddles, t, slot);
    UNROLL for (int r = 0; r < POINTS; r++) {
      if (!KEEP && Layout::KEPT) a[r] = kept_point(kept, t + THREADS * r);
      a[r] = accumulate(a[r], sum[r]);
    }
  }
  if (wanted < jobs) keep(home, a, t);
  if (CLUSTER > 1) {
    // No block leaves while its mailbox is being read.
    cluster_arrive();
    if (!planted<12>()) cluster_wait();
  }
}
