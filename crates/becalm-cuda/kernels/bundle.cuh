// Bundles of the multi-bit and block rotations: Σ_v (X^(e_v) − 1)·GGSW_v for a group of key bits, in the domain of the transform.
// On vector units, or (`make_bundles_by_tensor`, in doubles) as products of small matrices, one for each leaf.
//
// At the leaf p the monomial X^e is ζ^(e(4·rev(p)+1)), modulo p ζ^(e(2·rev(p)+1)), one look-up for all polynomials there. A block has BUNDLE_POINTS
// leaves of all ROWS·COLUMNS polynomials of one group, a thread the COLUMNS of one row at one leaf, for BUNDLE_JOBS
// ciphertexts: a value of the key is read once for all of these.
// Cost, for each leaf and job: GGSWS·ROWS·COLUMNS complex products and GGSWS look-ups.
#pragma once
#include "transform.cuh"

constexpr int BUNDLE_POINTS = 32;
/// As many as registers allow: at most 16 sums a thread.
constexpr int BUNDLE_JOBS = COLUMNS <= 2 ? 8 : COLUMNS <= 4 ? 4 : COLUMNS <= 8 ? 2 : 1;
constexpr int BUNDLE_THREADS = BUNDLE_POINTS * ROWS;

/// Grid (M/BUNDLE_POINTS, groups, ⌈jobs/jobs_here⌉), block BUNDLE_THREADS, shared jobs_here·GGSWS·BUNDLE_POINTS values.
/// `key`: [group][GGSW][level][row][column][M], of the first group; `exponents`: of that group and job 0, `width` a job;
/// `bundle`: [job][group of this launch][level][row][column][M]; `jobs_here`: ciphertexts of a block, at most BUNDLE_JOBS.
template <int JOBS>
__device__ __forceinline__ void make_bundles(Value* bundle, const Value* key, const u32* exponents, u32 width, u32 jobs,
                                             const Value* table) {
  const int lane = threadIdx.x % BUNDLE_POINTS, row = threadIdx.x / BUNDLE_POINTS;
  const u32 at = blockIdx.x * BUNDLE_POINTS + lane, group = blockIdx.y, groups = gridDim.y, first = blockIdx.z * JOBS;
  Value* const factors = shared_memory<Value>();

  // Leaf POINTS·t + r lies at r·THREADS + t.
  const u32 leaf = (at % THREADS) * POINTS + at / THREADS;
  u32 reversed = 0;
  UNROLL for (int bit = 0; bit < LOG2_M; bit++) reversed |= (leaf >> bit & 1) << (LOG2_M - 1 - bit);
  const u32 turn = (EXACT ? 2 : 4) * reversed + 1;
  for (int i = row; i < JOBS * GGSWS; i += ROWS) {
    const u32 job = first + i / GGSWS < jobs ? first + i / GGSWS : jobs - 1;
    const u32 e = exponents[u64(job) * width + group * GGSWS + i % GGSWS];
    factors[i * BUNDLE_POINTS + lane] = minus_one(read(&table[ROOTS_AT + (e * turn & (2 * N - 1))]));
  }
  if (!planted<7>()) __syncthreads();

  Value sum[JOBS][COLUMNS];
  UNROLL for (int j = 0; j < JOBS; j++) {
    UNROLL for (int c = 0; c < COLUMNS; c++) sum[j][c] = zero();
  }
  key += (u64(group) * GGSWS * ROWS + row) * COLUMNS * M + at;
  LOOP
  for (int v = 0; v < GGSWS; v++, key += ROWS * COLUMNS * M) {
    Value values[COLUMNS];
    UNROLL for (int c = 0; c < COLUMNS; c++) values[c] = read(&key[c * M]);
    UNROLL for (int j = 0; j < JOBS; j++) {
      const Value factor = factors[(j * GGSWS + v) * BUNDLE_POINTS + lane];
      UNROLL for (int c = 0; c < COLUMNS; c++) {
        // The tensor cores add in this order too: the imaginary part of the factor first. Residues take fewer instructions
        // the other way.
        sum[j][c] = EXACT ? multiply_add(values[c], factor, sum[j][c]) : multiply_add(factor, values[c], sum[j][c]);
      }
    }
  }
  UNROLL for (int j = 0; j < JOBS; j++) {
    if (first + j >= jobs) break;
    Value* const out = bundle + ((u64(first + j) * groups + group) * ROWS + row) * COLUMNS * M + at;
    UNROLL for (int c = 0; c < COLUMNS; c++) out[c * M] = sum[j][c];
  }
}

#if BECALM_GROUP_GGSWS > 0 && BECALM_ARITHMETIC == 0
// At one leaf: (ciphertexts × monomials) times (monomials × polynomials of a GGSW), complex. As real numbers a monomial is a
// row of two, its imaginary and its real part, and a complex polynomial two columns: with 15 monomials and 4 polynomials the
// matrices are 8×32 and 32×8, which is what eight products of 8×4 by 4×8 take, and nothing is left over but one monomial.
//
// A warp has one t and its leaves POINTS·t + 4·half + 0..3, whose monomials are the same root times a power of i: one
// look-up for four leaves. The key's values stay in its registers for TENSOR_JOBS ciphertexts; they come in, and the
// results go out, through shared memory, for the products want values that lie far apart. Sums have the order of
// `make_bundles`, so the words are the same.
// Cost, for each leaf, 4 polynomials and 8 ciphertexts: PAIRS products; for four such leaves PAIRS look-ups.
constexpr int TENSOR_THREADS = 256, TENSOR_JOBS = 64;
/// Products along the monomials: each takes two.
constexpr int PAIRS = (GGSWS + 1) / 2;
constexpr int POLYNOMIALS = ROWS * COLUMNS, TENSOR_TILES = (POLYNOMIALS + 3) / 4;
/// Values from one polynomial to the next, and exponents from one job to the next, so that the lanes of a warp meet in no bank.
constexpr int TENSOR_STRIDE = BUNDLE_POINTS + 1, EXPONENT_STRIDE = 2 * PAIRS + 1;
constexpr int TENSOR_KEY_AT = M, TENSOR_OUT_AT = TENSOR_KEY_AT + 2 * PAIRS * 4 * TENSOR_STRIDE;
constexpr int TENSOR_EXPONENTS_AT = TENSOR_OUT_AT + 2 * 8 * 4 * TENSOR_STRIDE;
constexpr int TENSOR_BYTES = TENSOR_EXPONENTS_AT * 16 + TENSOR_JOBS * EXPONENT_STRIDE * 4;
static_assert(BUNDLE_POINTS == TENSOR_THREADS / 32 * 4, "four leaves a warp");

/// Four monomials' parts, those of i^(turns + e·(0, 2, 1, 3))·root: the imaginary part plus `less` = −0, or, where `turns` is one
/// more than that, the real part plus `less` = −1. The first two are parts of the same component, and the last two.
__device__ __forceinline__ void parts_of_monomials(double* out, double2 root, u32 turns, u32 e, double less) {
  UNROLL for (int r = 0; r < 4; r += 2, turns += e) {
    const i64 part = __double_as_longlong(turns & 1 ? root.x : root.y), half = i64(1) << 63;
    const i64 first = part ^ (i64(u64(turns) << 62) & half), second = first ^ i64(u64(e) << 63);
    out[r] = __longlong_as_double(first) + less;
    out[r + 1] = __longlong_as_double(second) + less;
  }
}

/// Place of point `i` of a block in a polynomial: i/8 is the leaf's register, i%8 its thread.
__device__ __forceinline__ u32 tensor_point(int i) {
  constexpr int HALVES = POINTS / 4;
  const u32 thread = blockIdx.x / HALVES * 8 + i % 8, half = blockIdx.x % HALVES;
  return (4 * half + i / 8) * THREADS + thread;
}

/// Roots, the key's values of this block and the exponents of its jobs into shared memory. Monomials and polynomials that
/// there are not are zeros.
__device__ __forceinline__ void stage_tensor(Value* shared, const Value* key, const u32* exponents, u32 width, u32 first,
                                             u32 jobs, const Value* table) {
  const u32 group = blockIdx.y / TENSOR_TILES, tile = blockIdx.y % TENSOR_TILES;
  for (int i = threadIdx.x; i < M; i += TENSOR_THREADS) copy_async(&shared[i], &table[ROOTS_AT + i]);
  key += u64(group) * GGSWS * POLYNOMIALS * M;
  for (int i = threadIdx.x; i < 2 * PAIRS * 4 * BUNDLE_POINTS; i += TENSOR_THREADS) {
    const int point = i % BUNDLE_POINTS, at = i / BUNDLE_POINTS, v = at / 4, polynomial = 4 * tile + at % 4;
    Value* const to = &shared[TENSOR_KEY_AT + at * TENSOR_STRIDE + point];
    if (v < GGSWS && polynomial < POLYNOMIALS) copy_async(to, &key[u64(v * POLYNOMIALS + polynomial) * M + tensor_point(point)]);
    else *to = zero();
  }
  u32* const staged = reinterpret_cast<u32*>(shared + TENSOR_EXPONENTS_AT);
  for (int i = threadIdx.x; i < TENSOR_JOBS * 2 * PAIRS; i += TENSOR_THREADS) {
    const u32 wanted = first + i / (2 * PAIRS), job = wanted < jobs ? wanted : jobs - 1, v = i % (2 * PAIRS);
    staged[i / (2 * PAIRS) * EXPONENT_STRIDE + v] = v < GGSWS ? exponents[u64(job) * width + group * GGSWS + v] : 0;
  }
  if (!planted<14>()) await_copies();
}

/// Grid (M/BUNDLE_POINTS, groups·TENSOR_TILES, ⌈jobs/TENSOR_JOBS⌉), block TENSOR_THREADS, shared TENSOR_BYTES; the arguments
/// of `make_bundles`.
__device__ __forceinline__ void make_bundles_by_tensor(Value* bundle, const Value* key, const u32* exponents, u32 width, u32 jobs,
                                                       const Value* table) {
  const u32 group = blockIdx.y / TENSOR_TILES, groups = gridDim.y / TENSOR_TILES, tile = blockIdx.y % TENSOR_TILES;
  const u32 first = blockIdx.z * TENSOR_JOBS;
  const int warp = threadIdx.x / 32, i = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
  const u32 real = q & 1;
  const double less = real ? -1.0 : -0.0;
  Value* const shared = shared_memory<Value>();
  stage_tensor(shared, key, exponents, width, first, jobs, table);
  if (!planted<13>()) __syncthreads();

  // b[q][i]: polynomial i/2 of monomial 2s + q/2; to its real part the imaginary factor brings minus its imaginary part.
  double b[4][PAIRS];
  UNROLL for (int r = 0; r < 4; r++) {
    UNROLL for (int s = 0; s < PAIRS; s++) {
      const Value value = shared[TENSOR_KEY_AT + ((2 * s + q / 2) * 4 + i / 2) * TENSOR_STRIDE + 8 * r + warp];
      if (real) b[r][s] = i & 1 ? value.y : value.x;
      else b[r][s] = i & 1 ? value.x : -value.y;
    }
  }
  // The leaf of the warp's first point; that of point r has r's two bits reversed at the top: i^(e·(2·bit 0 + bit 1)) more.
  const u32 at = tensor_point(warp), leaf = at % THREADS * POINTS + at / THREADS;
  u32 reversed = 0;
  UNROLL for (int bit = 0; bit < LOG2_M; bit++) reversed |= (leaf >> bit & 1) << (LOG2_M - 1 - bit);
  const u32 turn = 4 * reversed + 1;
  const u32* staged = reinterpret_cast<const u32*>(shared + TENSOR_EXPONENTS_AT) + i * EXPONENT_STRIDE + q / 2;
  const u32 most = jobs - first < u32(TENSOR_JOBS) ? jobs - first : TENSOR_JOBS;
  // Where the results go that this thread carries: one point and one polynomial, of every second job.
  const u32 lane = threadIdx.x % 32, mine = 4 * tile + warp % 4;
  const u64 job_stride = u64(groups) * POLYNOMIALS * M;
  Value* const to = bundle + (first + warp / 4) * job_stride + (group * POLYNOMIALS + mine) * M + tensor_point(lane);
  LOOP
  for (u32 job = 0; job < most; job += 8, staged += 8 * EXPONENT_STRIDE) {
    double2 d[4];
    UNROLL for (int r = 0; r < 4; r++) d[r] = zero();
    UNROLL for (int s = 0; s < PAIRS; s++) {
      const u32 e = staged[2 * s], y = e * turn;
      double a[4];
      parts_of_monomials(a, shared[y & (M - 1)], (y >> LOG2_M) + real, e, less);
      UNROLL for (int r = 0; r < 4; r++) multiply_8x8x4(d[r].x, d[r].y, a[r], b[r][s]);
    }
    // Two boxes in turn: who writes one again has been at the barrier of the other, after which no thread reads the first.
    Value* const out = shared + TENSOR_OUT_AT + (job & 8) / 8 * 8 * 4 * TENSOR_STRIDE;
    UNROLL for (int r = 0; r < 4; r++) out[(4 * i + q) * TENSOR_STRIDE + 8 * r + warp] = d[r];
    if (!planted<15>()) __syncthreads();
    UNROLL for (int n = 0; n < 4; n++) {
      const u32 whose = job + warp / 4 + 2 * n;
      if (whose < most && mine < u32(POLYNOMIALS)) to[u64(job + 2 * n) * job_stride] = out[(warp + 8 * n) * TENSOR_STRIDE + lane];
    }
  }
}
#endif
