// Bundles of the multi-bit and block rotations: Σ_v (X^(e_v) − 1)·GGSW_v for a group of key bits, in the domain of the transform.
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
      UNROLL for (int c = 0; c < COLUMNS; c++) sum[j][c] = multiply_add(values[c], factor, sum[j][c]);
    }
  }
  UNROLL for (int j = 0; j < JOBS; j++) {
    if (first + j >= jobs) break;
    Value* const out = bundle + ((u64(first + j) * groups + group) * ROWS + row) * COLUMNS * M + at;
    UNROLL for (int c = 0; c < COLUMNS; c++) out[c * M] = sum[j][c];
  }
}
