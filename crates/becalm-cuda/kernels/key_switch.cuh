// Key switch of a batch: (0, …, b) − Σ_i Σ_l d_(i,l)·K_(i,l), the digits of a batch times the matrix K modulo 2^32, 2^64 or p.
//
// A thread has one column and KEY_SWITCH_JOBS ciphertexts: a word of the key is read once for these. The rows are cut into
// slices, as many as fill the GPU, and the slices' sums are added by atomics: exact sums do not depend on the order.
// Digits as in `math/gadget.rs`: round to a multiple of 2^(64−βℓ), halves up, then balanced digits in [−B/2, B/2) from the
// last, the first taking what remains. Words of 32 bits are the upper halves of torus elements.
#pragma once
#include "transform.cuh"

constexpr int KEY_SWITCH_JOBS = 8, KEY_SWITCH_COLUMNS = 128;
/// Mask elements whose digits lie in shared memory at once.
constexpr int KEY_SWITCH_ELEMENTS = 16;

/// The shape of a key switch: k·N → n, w bodies, the first `shared` coefficients kept as they are; `stride`: words from
/// one row of the key to the next; `word`: 32 or 64.
struct KeySwitchShape {
  u32 input_dimension, output_dimension, bodies, shared, base_log, level, stride, word;
};

/// out = (a_1 … a_shared, 0, …, b_1 …), rounded to the key's modulus: grid (jobs), any block. `outputs`, `inputs`: of each job.
__device__ void key_switch_start(u64* const* outputs, const u64* const* inputs, KeySwitchShape s) {
  u64* const out = outputs[blockIdx.x];
  const u64* const in = inputs[blockIdx.x];
  for (u32 i = threadIdx.x; i < s.output_dimension + s.bodies; i += blockDim.x) {
    u64 kept = 0;
    if (i < s.shared) kept = in[i];
    if (i >= s.output_dimension) kept = in[s.input_dimension + i - s.output_dimension];
    if (s.word == 32) kept = (kept + (u64(1) << 31)) >> 32 << 32;
    out[i] = kept;
  }
}

/// −Σ digit·word of one ciphertext, added to what lies in `out`.
template <class WORD>
struct KeySwitchSum {
  WORD sum = 0;
  __device__ __forceinline__ void add(int digit, WORD word) { sum += WORD(i64(digit)) * word; }
  __device__ __forceinline__ void store(u64* out) const { atomicAdd(out, (0 - u64(sum)) << (64 - 8 * sizeof(WORD))); }
};
#if BECALM_ARITHMETIC == 2
/// Modulo p: halves of the words apart, so that up to 2^15 products of digits of 16 bits cannot overflow.
template <>
struct KeySwitchSum<u64> {
  i64 low = 0, high = 0;
  __device__ __forceinline__ void add(int digit, u64 word) {
    low += i64(digit) * i64(word & EPSILON);
    high += i64(digit) * i64(word >> 32);
  }
  __device__ __forceinline__ void store(u64* out) const {
    const Word sum = from_signed(low) + shifted(from_signed(high), 32);
    // Other blocks add to the same word.
    u64 seen = read_atomic(out), wanted;
    do {
      wanted = seen;
      seen = atomicCAS(out, wanted, (word(wanted) - sum).v);
    } while (seen != wanted);
  }
};
#endif

/// The digits of `a`, most significant first, `stride` apart.
__device__ __forceinline__ void decompose(u64 a, u32 base_log, u32 level, int* digits, u32 stride) {
  const u32 dropped = 64 - base_log * level;
  i64 rest = centered(a);
  if (dropped > 0) rest = (rest >> dropped) + (rest >> (dropped - 1) & 1);
  for (u32 l = level; l-- > 1;) {
    digits[l * stride] = int(i64(u64(rest) << (64 - base_log)) >> (64 - base_log));
    rest = (rest >> base_log) + (rest >> (base_log - 1) & 1);
  }
  digits[0] = int(rest);
}

/// Grid (⌈columns/128⌉, ⌈jobs/KEY_SWITCH_JOBS⌉, slices), block 128, shared 512·level bytes.
template <class WORD>
__device__ __forceinline__ void key_switch_add(u64* const* outputs, const u64* const* inputs, const WORD* key, KeySwitchShape s,
                                               u32 jobs) {
  const u32 columns = s.output_dimension + s.bodies, column = blockIdx.x * KEY_SWITCH_COLUMNS + threadIdx.x;
  const u32 rows = s.input_dimension - s.shared, slice = (rows + gridDim.z - 1) / gridDim.z, first = blockIdx.y * KEY_SWITCH_JOBS;
  const u32 from = blockIdx.z * slice, to = from + slice < rows ? from + slice : rows;
  int* const digits = shared_memory<int>();
  KeySwitchSum<WORD> sum[KEY_SWITCH_JOBS];
  for (u32 at = from; at < to; at += KEY_SWITCH_ELEMENTS) {
    if (!planted<8>()) __syncthreads();
    // One element of one ciphertext for each thread; [element][level][job].
    const u32 element = threadIdx.x / KEY_SWITCH_JOBS, job = threadIdx.x % KEY_SWITCH_JOBS;
    const bool there = at + element < to && first + job < jobs;
    const u64 a = there ? inputs[first + job][s.shared + at + element] : 0;
    decompose(a, s.base_log, s.level, digits + element * s.level * KEY_SWITCH_JOBS + job, KEY_SWITCH_JOBS);
    if (!planted<11>()) __syncthreads();
    const u32 count = (to - at < u32(KEY_SWITCH_ELEMENTS) ? to - at : KEY_SWITCH_ELEMENTS) * s.level;
    if (column < columns) {
      const WORD* row = key + u64(at) * s.level * s.stride + column;
      LOOP_4
      for (u32 i = 0; i < count; i++, row += s.stride) {
        const WORD value = __ldg(row);
        UNROLL for (int j = 0; j < KEY_SWITCH_JOBS; j += 4) {
          const int4 d = *reinterpret_cast<const int4*>(digits + i * KEY_SWITCH_JOBS + j);
          sum[j].add(d.x, value);
          sum[j + 1].add(d.y, value);
          sum[j + 2].add(d.z, value);
          sum[j + 3].add(d.w, value);
        }
      }
    }
  }
  if (column >= columns) return;
  for (u32 j = 0; j < KEY_SWITCH_JOBS && first + j < jobs; j++) {
    sum[j].store(&outputs[first + j][column]);
  }
}
