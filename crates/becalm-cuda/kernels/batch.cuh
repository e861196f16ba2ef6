// The blind rotation of a batch: one kernel whose first blocks rotate four ciphertexts each and whose other blocks make the bundles of all
// (`streams.cuh`), all of them at once on the device. Bundles go through a ring of slots that stays in the second-level cache.
//
// A polynomial is a warp, 32 points a lane: five levels of the transform in registers, one exchange of 32×32 points in shared memory,
// five levels more; leaf 32t + r is in lane t, register r. The two warps of a ciphertext exchange leaves before the product. Between
// steps the accumulator is its digits, integers of BASE_LOG bits, of which the low words are kept.
// Cost of a step and ciphertext: 664 operations in doubles for each of 256 points of four, and about 2800 accesses of 128 bytes to shared memory.
#pragma once
#include "rotate.cuh"
#include "streams.cuh"

/// Factors of the five outermost levels of the transform, ζ^(x/2) of the even nodes of each level in turn, and of the five innermost ones
/// back: the same for every lane. As `src/tables.rs` has them.
CONSTANT double2 outer_factors[16] = {
    {0.7071067811865476, 0.7071067811865475}, {0.9238795325112867, 0.3826834323650898},
    {0.9807852804032304, 0.19509032201612825}, {0.5555702330196022, 0.8314696123025452},
    {0.9951847266721969, 0.0980171403295606}, {0.6343932841636455, 0.773010453362737},
    {0.881921264348355, 0.47139673682599764}, {0.29028467725446233, 0.9569403357322088},
    {0.9987954562051724, 0.049067674327418015}, {0.6715589548470183, 0.7409511253549591},
    {0.9039892931234433, 0.4275550934302821}, {0.33688985339222005, 0.9415440651830208},
    {0.970031253194544, 0.24298017990326387}, {0.5141027441932217, 0.8577286100002721},
    {0.8032075314806449, 0.5956993044924334}, {0.14673047445536175, 0.989176509964781}};
CONSTANT double2 inner_factors_back[16] = {
    {1.0, 0.0}, {1.0, 0.0},
    {1.0, 0.0}, {0.7071067811865475, -0.7071067811865476},
    {1.0, 0.0}, {0.9238795325112867, -0.3826834323650898},
    {0.7071067811865475, -0.7071067811865476}, {0.3826834323650898, -0.9238795325112867},
    {1.0, 0.0}, {0.9807852804032304, -0.19509032201612825},
    {0.9238795325112867, -0.3826834323650898}, {0.8314696123025452, -0.5555702330196022},
    {0.7071067811865475, -0.7071067811865476}, {0.5555702330196022, -0.8314696123025452},
    {0.3826834323650898, -0.9238795325112867}, {0.19509032201612825, -0.9807852804032304}};

/// Five levels of the remainder tree. Levels are template parameters: a loop that another's bounds depend on is not unrolled at 32 points.
template <int LEVEL_OF_FIVE = 0, class F>
__device__ __forceinline__ void split_five(Value* z, F factor) {
  constexpr int half = 16 >> LEVEL_OF_FIVE;
  UNROLL for (int v = 0; v < 1 << LEVEL_OF_FIVE; v++) {
    const Value even = factor(LEVEL_OF_FIVE == 0 ? 0 : (1 << LEVEL_OF_FIVE) / 2 + v / 2), w = v & 1 ? times_i(even) : even;
    UNROLL for (int r = 0; r < half; r++) butterfly(z[2 * half * v + r], z[2 * half * v + r + half], w);
  }
  if constexpr (LEVEL_OF_FIVE < 4) split_five<LEVEL_OF_FIVE + 1>(z, factor);
}
/// Five levels of decimation in time. INNERMOST: in the first two the factors 1 and −i are no multiplications.
template <bool INNERMOST, int LEVEL_OF_FIVE = 0, class F>
__device__ __forceinline__ void join_five(Value* z, F factor) {
  constexpr int half = 1 << LEVEL_OF_FIVE, quarter = half / 2, blocks = 16 >> LEVEL_OF_FIVE;
  // As `join_first<2>`: the words of `leaves.cuh`.
  constexpr bool PLAIN = INNERMOST && LEVEL_OF_FIVE < 2;
  UNROLL for (int k = 0; k < half; k++) {
    if (PLAIN && k == 0) {
      UNROLL for (int n = 0; n < blocks; n++) butterfly(z[2 * half * n], z[2 * half * n + half]);
    } else if (PLAIN && k == quarter) {
      UNROLL for (int n = 0; n < blocks; n++) butterfly_minus_i(z[2 * half * n + k], z[2 * half * n + k + half]);
    } else {
      const Value first = factor(LEVEL_OF_FIVE == 0 ? 0 : quarter + k % (quarter + (LEVEL_OF_FIVE == 0)));
      const Value w = LEVEL_OF_FIVE > 0 && k >= quarter ? times_minus_i(first) : first;
      UNROLL for (int n = 0; n < blocks; n++) butterfly(z[2 * half * n + k], z[2 * half * n + k + half], w);
    }
  }
  if constexpr (LEVEL_OF_FIVE < 4) join_five<INNERMOST, LEVEL_OF_FIVE + 1>(z, factor);
}

/// Shared memory of a block that rotates, in values: an exchange of M for each warp, its digits, the factors of the lanes.
struct WarpsLayout {
  static constexpr int WARPS = 8, JOBS = WARPS / 2;
  static constexpr int DIGITS_AT = WARPS * M, FACTORS_AT = DIGITS_AT + WARPS * M / 2, BACK = 16 * 32, TWIST = 32 * 32;
  static constexpr int BYTES = (FACTORS_AT + 2 * BACK + TWIST) * int(sizeof(Value));
};
/// Two digits, as integers.
struct Digits {
  u32 x, y;
};

/// The factors of the five inner levels forward, of the five outer ones back, and the twist, `[factor][lane]`.
__device__ __forceinline__ void load_lane_factors(Value* factors, const Value* table) {
  for (u32 i = threadIdx.x; i < 16 * 32; i += 32 * WarpsLayout::WARPS) {
    const u32 t = i % 32, factor = i / 32;
    int level = 0, m = 0;
    if (factor > 0) {
      while (2u << level <= factor) level++;
      m = int(factor) - (1 << level);
      level++;
    }
    const int depth = 5 + level, node = int(t << level) + 2 * m;
    const u32 forward = ((1u << (10 - depth)) + (reversed<10>(u32(node) << (10 - depth)) << (12 - depth))) / 2;
    const u32 back = u32(-(int(t) + 32 * m) * (64 >> level));
    factors[i] = read(&table[ROOTS_AT + (forward & (2 * N - 1))]);
    factors[WarpsLayout::BACK + i] = read(&table[ROOTS_AT + (back & (2 * N - 1))]);
  }
  for (u32 j = threadIdx.x; j < u32(M); j += 32 * WarpsLayout::WARPS) factors[2 * WarpsLayout::BACK + j] = read(&table[TWIST_AT + j]);
}

/// Values of one step's bundle for the lane's polynomial: of four registers, the product with its own leaves and with the other's.
struct Quarter {
  Value own[4], other[4];
  __device__ __forceinline__ void load(const Value* records, int n, u32 at) {
    UNROLL for (int q = 0; q < 4; q++) {
      own[q] = load_shared_line(&records[(4 * n + q) * 128 + at]);
      other[q] = load_shared_line(&records[(4 * n + q) * 128 + (at ^ 1)]);
    }
  }
};

/// Blocks of four ciphertexts, a warp for each polynomial.
__device__ __forceinline__ void rotate_polynomials(Coefficient* acc, const ToRing& from, u32 steps, const Value* table) {
  const u32 warp = threadIdx.x / 32, t = threadIdx.x % 32, column = warp & 1, job = blockIdx.x * WarpsLayout::JOBS + warp / 2;
  Value* const block = shared_memory<Value>();
  Value* const factors = block + WarpsLayout::FACTORS_AT;
  load_lane_factors(factors, table);
  __syncthreads();
  if (job >= from.jobs) return;
  Value* const box = block + warp * M;
  const Value* const theirs = block + (warp ^ 1) * M;
  Digits* const kept = reinterpret_cast<Digits*>(block + WarpsLayout::DIGITS_AT) + warp * M;
  Coefficient* const home = acc + (u64(job) * COLUMNS + column) * N;
  Value z[32];
  auto digits = [&](int r, Value y) {
    // The low word of the sum that rounds is the digit.
    const double magic = 6755399441055744.0, x = y.x + magic, i = y.y + magic;
    kept[r * 32 + t] = {low_word(x), low_word(i)};
    z[r] = make_double2(x - magic, i - magic);
  };
  UNROLL for (int r = 0; r < 32; r++) digits(r, kept_point(home, int(t) + 32 * r));
  u32 slot = job / UNIT_JOBS;
  // 0, which the compiler does not know.
  const u32 never = from.slots >> 31;
  // The place of the column's own row in a record; the other is beside it.
  const u32 at = (2 * column) ^ (t >> 1 & 3);
  LOOP
  for (u32 step = 0; step < steps; step++) {
    split_five(z, [](int i) { return outer_factors[i]; });
    UNROLL for (int r = 0; r < 32; r++) box[r * 32 + (t ^ (r & 7))] = z[r];
    if (!planted<31>()) __syncwarp();
    UNROLL for (int r = 0; r < 32; r++) z[r] = box[t * 32 + (r ^ (t & 7))];
    if (!planted<32>()) __syncwarp();
    split_five(z, [&](int i) { return factors[i * 32 + t]; });
    UNROLL for (int r = 0; r < 32; r++) box[r * 32 + t] = z[r];
    const u32 unit = step * from.units + job / UNIT_JOBS;
    if (t == 0 && !planted<33>()) acquire_flag(from.made + unit, TILES);
    __syncwarp();
    const Value* const records = from.ring + (u64(slot) * UNIT_JOBS + job % UNIT_JOBS) * BUNDLE_VALUES + t * 4;
    slot = slot + from.units < from.slots ? slot + from.units : slot + from.units - from.slots;
    Quarter quarters[2];
    quarters[0].load(records, 0, at);
    if (!planted<34>()) named_barrier(1 + warp / 2, 64);
    UNROLL for (int n = 0; n < 8; n++) {
      if (n < 7) quarters[(n + 1) & 1].load(records, n + 1, at);
      UNROLL for (int q = 0; q < 4; q++) {
        const int r = 4 * n + q;
        z[r] = multiply_add(theirs[r * 32 + t], quarters[n & 1].other[q], z[r] * quarters[n & 1].own[q]);
      }
    }
    __syncwarp();
    // The last products are in the sum, times 0: the bundle was read before its slot is free.
    const u32 last_used = low_word(z[28].x) ^ low_word(z[29].x) ^ low_word(z[30].x) ^ low_word(z[31].x);
    if (t == 0) count_flag(from.read + unit, 1 + (last_used & never));
    if (!planted<35>()) named_barrier(1 + warp / 2, 64);
    join_five<true>(z, [](int i) { return inner_factors_back[i]; });
    UNROLL for (int r = 0; r < 32; r++) box[t * 32 + (r ^ (t & 7))] = z[r];
    if (!planted<36>()) __syncwarp();
    UNROLL for (int r = 0; r < 32; r++) z[r] = box[r * 32 + (t ^ (r & 7))];
    // Each lane has read the places that it writes first in the next step.
    join_five<false>(z, [&](int i) { return factors[WarpsLayout::BACK + i * 32 + t]; });
    const bool last = step == steps - 1;
    UNROLL for (int r = 0; r < 32; r++) {
      const Digits k = kept[r * 32 + t];
      const Value y = accumulate(make_double2(from_low_word(k.x), from_low_word(k.y)), z[r] * factors[2 * WarpsLayout::BACK + r * 32 + t]);
      digits(r, y);
      if (last) scatter(home, int(t) + 32 * r, y);
    }
  }
}

/// Tiles of the key that a block has in shared memory at once, and how many times.
constexpr int BATCH_STAGES = 4, BATCH_STAGE_TILES = 2;

/// Grid: `rotators` = ⌈jobs/4⌉ blocks that rotate, and others that make bundles; all must be on the device at once. `flags`: zeros,
/// two for each step and unit of 16 jobs. `slots`: bundles that the ring holds, in units, at least ⌈jobs/16⌉.
__device__ __forceinline__ void rotate_batch(Coefficient* acc, Value* ring, u32* flags, const Value* key, const u64* packed, u32 stride,
                                             u32 steps, u32 jobs, u32 slots, u32 rotators, const Value* table) {
  const u32 units = (jobs + UNIT_JOBS - 1) / UNIT_JOBS;
  const ToRing to{ring, slots, jobs, units, flags, flags + steps * units};
  if (blockIdx.x < rotators) {
    rotate_polynomials(acc, to, steps, table);
  } else {
    make_bundles_ahead<WarpsLayout::WARPS, 2, BATCH_STAGES, BATCH_STAGE_TILES>(key, packed, stride, steps, jobs, blockIdx.x - rotators,
                                                                             gridDim.x - rotators, table, to);
  }
}
