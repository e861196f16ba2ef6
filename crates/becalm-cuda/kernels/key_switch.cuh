// Key switch of a batch: (0, …, b) − Σ_i Σ_l d_(i,l)·K_(i,l), the digits of a batch times the matrix K modulo 2^32, 2^64 or p.
//
// Tensor cores multiply bytes. A word of the key is its bytes, a *plane* each, and a digit is a signed byte; the sums of the planes,
// shifted, are the sum of the words. All sums are exact, so their order does not matter: the rows are cut into slices, as many as fill
// the GPU, and atomics add the sums of the slices. A digit of more than 7 bits is several of 7 bits, each with a row of its own, which
// is the key's row times a power of 2^7.
//
// A step is 32 rows. Digits: `[16 ciphertexts][step][lane]`, of lane 4g + q 16 bytes: rows 8q to 8q + 3 of ciphertext g, of ciphertext
// g + 8, and rows 8q + 4 to 8q + 7 of both. Key: `[step][8 columns][pair of planes][lane]`, of lane 4g + q 16 bytes: rows 8q to 8q + 7
// of column g, of the two planes one after the other. Rows and columns beyond the last are zeros.
//
// Digits as in `math/gadget.rs`: round to a multiple of 2^(64−βℓ), halves up, then balanced digits in [−B/2, B/2) from the
// last, the first taking what remains. Words of 32 bits are the upper halves of torus elements.
#pragma once
#include "transform.cuh"

constexpr u32 KEY_SWITCH_WARPS = 4, KEY_SWITCH_ROWS = 32, KEY_SWITCH_COLUMNS = 8, KEY_SWITCH_JOBS = 16;

/// The shape of a key switch: k·N → n, w bodies, the first `shared` coefficients kept as they are; `parts`: rows of a digit;
/// `word`: 32 or 64.
struct KeySwitchShape {
  u32 input_dimension, output_dimension, bodies, shared, base_log, level, parts, word;

  __device__ __forceinline__ u32 columns() const { return output_dimension + bodies; }
  __device__ __forceinline__ u32 elements() const { return input_dimension - shared; }
  __device__ __forceinline__ u32 steps() const {
    return (elements() * level * parts + KEY_SWITCH_ROWS - 1) / KEY_SWITCH_ROWS;
  }
};

/// The digits of mask elements, in the order of the key's rows.
struct KeySwitchDigits {
  KeySwitchShape s;
  /// Half a base at the place of each digit but the first: with it the balanced digits are those of the sum, less half a base.
  u64 halves;

  __device__ __forceinline__ explicit KeySwitchDigits(KeySwitchShape shape) : s(shape), halves(0) {
    for (u32 l = 1; l < s.level; l++) halves = (halves << s.base_log) + (u64(1) << (s.base_log - 1));
  }

  __device__ __forceinline__ i64 digit(u64 a, u32 l) const {
    const u32 dropped = 64 - s.base_log * s.level, shift = s.base_log * (s.level - 1 - l);
    i64 rest = centered(a);
    if (dropped > 0) rest = (rest >> dropped) + (rest >> (dropped - 1) & 1);
    const u64 sum = u64(rest) + halves;
    if (l > 0) return i64(sum >> shift & ((u64(1) << s.base_log) - 1)) - (i64(1) << (s.base_log - 1));
    // Digits that fill the word may carry out of it.
    const bool carried = rest >= 0 && i64(sum) < 0;
    return (i64(sum) >> shift) + (carried ? i64(1) << s.base_log : 0);
  }

  /// Those of four rows of a ciphertext, a byte each.
  __device__ __forceinline__ u32 four(const u64* in, u32 row) const {
    const u32 each = s.level * s.parts;
    u32 element = row / each, within = row % each, bytes = 0;
    for (u32 j = 0; j < 4 && element < s.elements(); j++) {
      i64 d = digit(in[s.shared + element], within / s.parts);
      const u32 part = within % s.parts;
      for (u32 i = 0; i < part; i++) d = (d + 64) >> 7;
      if (part + 1 < s.parts) d = ((d + 64) & 127) - 64;
      bytes |= (u32(d) & 255) << (8 * j);
      if (++within == each) element++, within = 0;
    }
    return bytes;
  }
};

/// out = (a_1 … a_shared, 0, …, b_1 …), rounded to the key's modulus, and the digits of 16 ciphertexts: grid (⌈jobs/16⌉, any).
__device__ void key_switch_start(u64* const* outputs, const u64* const* inputs, uint4* digits, KeySwitchShape s, u32 jobs) {
  const u32 first = blockIdx.x * KEY_SWITCH_JOBS, columns = s.columns(), steps = s.steps();
  const u32 thread = blockIdx.y * blockDim.x + threadIdx.x, threads = gridDim.y * blockDim.x;
  for (u32 i = thread; i < KEY_SWITCH_JOBS * columns && first + i / columns < jobs; i += threads) {
    const u64* const in = inputs[first + i / columns];
    const u32 at = i % columns;
    u64 kept = 0;
    if (at < s.shared) kept = in[at];
    if (at >= s.output_dimension) kept = in[s.input_dimension + at - s.output_dimension];
    if (s.word == 32) kept = (kept + (u64(1) << 31)) >> 32 << 32;
    outputs[first + i / columns][at] = kept;
  }
  const KeySwitchDigits of(s);
  for (u32 i = thread; i < 32 * steps; i += threads) {
    const u32 job = first + i % 32 / 4, row = i / 32 * KEY_SWITCH_ROWS + i % 4 * 8;
    uint4 bytes = {0, 0, 0, 0};
    if (job < jobs) bytes.x = of.four(inputs[job], row), bytes.z = of.four(inputs[job], row + 4);
    if (job + 8 < jobs) bytes.y = of.four(inputs[job + 8], row), bytes.w = of.four(inputs[job + 8], row + 4);
    digits[u64(blockIdx.x) * 32 * steps + i] = bytes;
  }
}

/// Subtracts Σ_p planes[p]·2^(8p) from a word of a ciphertext, to which other warps add as well.
template <int PLANES>
__device__ __forceinline__ void key_switch_subtract(u64* out, const int* planes) {
#if BECALM_ARITHMETIC == 2
  // Halves of the words apart: neither overflows.
  i64 halves[2] = {0, 0};
  UNROLL for (int p = 0; p < PLANES; p++) halves[p / 4] += i64(planes[p]) * (i64(1) << (8 * (p % 4)));
  const Word sum = from_signed(halves[0]) + shifted(from_signed(halves[1]), 32);
  u64 seen = read_atomic(out), wanted;
  do {
    wanted = seen;
    seen = atomicCAS(out, wanted, (word(wanted) - sum).v);
  } while (seen != wanted);
#else
  u64 sum = 0;
  UNROLL for (int p = 0; p < PLANES; p++) sum += u64(i64(planes[p])) << (8 * p);
  atomicAdd(out, (0 - sum) << (64 - 8 * PLANES));
#endif
}

/// A warp has 8 columns of a slice of the rows and 16·TILES ciphertexts; warps of a block that have the same columns read the key
/// from the first-level cache. Grid of ⌈warps/4⌉ blocks, warps = ⌈jobs/(16·TILES)⌉·slices·⌈columns/8⌉.
template <int PLANES>
__device__ __forceinline__ void key_switch_add(u64* const* outputs, const uint4* digits, const uint4* key, KeySwitchShape s, u32 jobs,
                                               u32 slices) {
  constexpr u32 TILES = 16 / PLANES, PAIRS = PLANES / 2;
  const u32 lane = threadIdx.x % 32, columns = s.columns(), steps = s.steps();
  const u32 all = (jobs + KEY_SWITCH_JOBS - 1) / KEY_SWITCH_JOBS, groups = (all + TILES - 1) / TILES;
  const u32 unit = blockIdx.x * KEY_SWITCH_WARPS + threadIdx.x / 32, group = unit % groups, slice = unit / groups % slices;
  const u32 column = unit / groups / slices, across = (columns + KEY_SWITCH_COLUMNS - 1) / KEY_SWITCH_COLUMNS;
  const u32 length = (steps + slices - 1) / slices, from = slice * length, to = from + length < steps ? from + length : steps;
  if (column >= across || from >= to) return;
  const u32 tiles = all - group * TILES < TILES ? all - group * TILES : TILES;
  const uint4* words = key + (u64(from) * across + column) * PAIRS * 32 + lane;
  const uint4* left = digits + (u64(group) * TILES * steps + from) * 32 + lane;
  int sum[TILES][4][PLANES] = {};
  uint4 next[PAIRS];
  UNROLL for (u32 p = 0; p < PAIRS; p++) next[p] = __ldg(words + p * 32);
  LOOP for (u32 step = from; step < to; step++, left += 32) {
    uint4 now[PAIRS], a[TILES];
    UNROLL for (u32 t = 0; t < TILES; t++) a[t] = __ldg(left + (t < tiles ? t : 0) * steps * 32);
    UNROLL for (u32 p = 0; p < PAIRS; p++) now[p] = next[p];
    words += u64(across) * PAIRS * 32;
    if (step + 1 < to) {
      UNROLL for (u32 p = 0; p < PAIRS; p++) next[p] = __ldg(words + p * 32);
    }
    UNROLL for (u32 t = 0; t < TILES; t++) {
      if (t >= tiles) break;
      UNROLL for (u32 p = 0; p < PLANES; p++) {
        const uint4 both = now[p / 2];
        int d[4];
        UNROLL for (u32 i = 0; i < 4; i++) d[i] = sum[t][i][p];
        multiply_16x8x32(d, a[t], p % 2 ? both.z : both.x, p % 2 ? both.w : both.y);
        UNROLL for (u32 i = 0; i < 4; i++) sum[t][i][p] = d[i];
      }
    }
  }
  UNROLL for (u32 t = 0; t < TILES; t++) {
    UNROLL for (u32 i = 0; i < 4; i++) {
      const u32 job = (group * TILES + t) * KEY_SWITCH_JOBS + lane / 4 + i / 2 * 8, at = column * KEY_SWITCH_COLUMNS + lane % 4 * 2 + i % 2;
      if (job < jobs && at < columns) key_switch_subtract<PLANES>(outputs[job] + at, sum[t][i]);
    }
  }
}
