// Bundles that are made for all steps by one kernel, while another, or other blocks of the same one, rotate: the layouts that both sides
// know, and the blocks that make bundles by products of tensor cores. One ring: N = 2048, k = w = 1, one level, groups of 4 bits.
//
// At one leaf a bundle is a product of matrices, (ciphertexts × monomials) times (monomials × polynomials of a GGSW). A product m16n8k4
// takes 16 ciphertexts and 4 monomials: their real parts, then their imaginary parts, of the same look-ups. Monomial 15 is the constant 1
// and its GGSW minus the sum of the others, so that nothing is subtracted: Σ_v (X^(e_v) − 1)·GGSW_v.
// A tile has 8 leaves. Its leaves 4d + q, of two threads t = 2·⌊tile/8⌋ + d and four registers r = 4·(tile mod 8) + q, are the leaves
// 32t + r of the transform. The monomials of four q differ by powers of i alone: one look-up for the four.
#pragma once
#include "transform.cuh"

/// Tiles of a polynomial, and values of one in the key: `[monomial][polynomial][leaf ^ tile_code]`, polynomial row·2 + column.
constexpr int TILES = M / 8, MONOMIALS = 16, TILE_VALUES = MONOMIALS * 4 * 8;
/// Ciphertexts of a product.
constexpr int UNIT_JOBS = 16;
/// Values of a bundle: a record of 4 for each leaf. Place n of a record has column n/2 and row (n/2) ^ (n & 1), the column's own row first.
constexpr int BUNDLE_VALUES = 4 * M;

/// Lanes that read a value of 8 key entries at once, of 4 monomials and 2 polynomials, meet in no bank.
__device__ __forceinline__ u32 tile_code(u32 monomial, u32 polynomial) { return (monomial & 3) * 2 + (polynomial >> 1); }
/// The lowest `BITS` bits of x, reversed.
template <int BITS>
__device__ __forceinline__ u32 reversed(u32 x) {
  u32 out = 0;
  UNROLL for (int bit = 0; bit < BITS; bit++) out |= (x >> bit & 1) << (BITS - 1 - bit);
  return out;
}
/// With the sign changed where the highest bit of `mask` is set.
__device__ __forceinline__ double signed_by(double a, u32 mask) {
  return __longlong_as_double(__double_as_longlong(a) ^ i64(u64(mask & 0x80000000u) << 32));
}

/// Warps of a block that makes bundles beside rotations on the same multiprocessor, and tiles of the key that it has at once.
constexpr int MAKER_WARPS = 8, MAKER_STAGES = 9;

/// The bundles of a batch: slots of 16 ciphertexts in turn, one for each step and unit. A bundle is `[warp][register][lane of half a
/// warp][4]`, turned by the lane so that eight lanes meet in no bank. A lane has eight leaves that follow each other, by the number of
/// their group with its bits in another order: d is the lowest one, for a warp that makes bundles should write whole lines of 128 bytes.
struct ToRing {
  Value* ring;
  u32 slots, jobs, units;
  /// `[step][unit]`: tiles that are there, and ciphertexts whose bundle has been read.
  u32 *made, *read;
  static constexpr bool AT_ONCE = false;
  static constexpr int THREAD = 4, REGISTER = 16 * 4;
  __device__ __forceinline__ Value* place(u32 number, u32, u32 job, u32 tile, u32 lane) const {
    const u32 reader = tile / 8 % 2 * 8 + tile / 2 % 4 * 2;
    return ring + (u64(number % slots) * UNIT_JOBS + job % UNIT_JOBS) * BUNDLE_VALUES + tile / 16 * 512 + tile % 2 * 4 * REGISTER + reader * 4 +
           (lane ^ (reader >> 1 & 3));
  }
  __device__ __forceinline__ u32* flag(u32 number, u32) const { return made + number; }
  /// Readers of the bundles that lay where those of this number go.
  __device__ __forceinline__ u32 readers(u32 number) const {
    const u32 left = jobs - (number - slots) % units * UNIT_JOBS;
    return left < UNIT_JOBS ? left : UNIT_JOBS;
  }
  /// Waits until the slot of this number is free.
  __device__ __forceinline__ void await_room(u32 number) const {
    if (number >= slots) await_flag(read + number - slots, readers(number));
  }
};

/// Bundles of few ciphertexts, all kept: `[job][step][part][q][i][4]`, part ⌊tile/8⌋ of 64 leaves, i = 8d + tile mod 8 turned as above.
struct ToSteps {
  Value* bundles;
  u64 job_stride;
  /// `[unit][step][quarter of the parts]`: tiles that are there.
  u32* made;
  u32 steps, units;
  static constexpr bool AT_ONCE = true;
  static constexpr int THREAD = 8 * 4, REGISTER = 16 * 4;
  __device__ __forceinline__ Value* place(u32 number, u32 unit, u32 job, u32 tile, u32 lane) const {
    const u32 step = number / units, i = tile % 8;
    return bundles + (unit * UNIT_JOBS + job) * job_stride + u64(step) * BUNDLE_VALUES + tile / 8 * 256 + i * 4 + (lane ^ (i >> 1 & 3));
  }
  __device__ __forceinline__ u32* flag(u32 number, u32 tile) const {
    return made + (number % units * steps + number / units) * 4 + tile / (TILES / 4);
  }
  __device__ __forceinline__ void await_room(u32) const {}
};

/// The parts of the factors of four leaves, i^(e·(0, 2, 1, 3)[q]) times a root.
__device__ __forceinline__ void turned_roots(double* re, double* im, double2 root, u32 e) {
  const u32 odd = e << 31, half = e << 30;
  re[0] = root.x, im[0] = root.y;
  re[1] = signed_by(root.x, odd), im[1] = signed_by(root.y, odd);
  re[2] = signed_by(e & 1 ? root.y : root.x, odd ^ half), im[2] = signed_by(e & 1 ? root.x : root.y, half);
  re[3] = signed_by(re[2], odd), im[3] = signed_by(im[2], odd);
}

/// Shared memory of a block that makes bundles: the roots, stages of the key, their barriers.
template <int STAGES, int STAGE_TILES>
struct MakerLayout {
  static constexpr int KEY_AT = 2 * N, BARRIERS_AT = KEY_AT + STAGES * STAGE_TILES * TILE_VALUES;
  static constexpr int BYTES = BARRIERS_AT * int(sizeof(Value)) + 2 * STAGES * 8;
};

/// TOGETHER units of one tile: `c[unit][d][q]` += factors · key. `values`: the key's tile; `packed`: exponents of a unit's rows of 16
/// jobs, four of 16 bits for each of 4 lanes.
template <int TOGETHER>
__device__ __forceinline__ void multiply_tile(double (*c)[2][4][4], const double* values, const u64 (*packed)[2], const Value* roots, u32 turn, u32 lane) {
  const u32 row = lane / 4, k = lane % 4, odd = row & 1, column = row / 4, polynomial = (column ^ (row / 2 & 1)) * 2 + column;
  // Even columns of the product are real parts: of the imaginary factor comes minus the imaginary part.
  const u32 flip = odd ? 0 : 0x80000000u, base = (k * 4 + polynomial) * 8, code = tile_code(k, polynomial);
  UNROLL for (int j = 0; j < 4; j++) {
    UNROLL for (int d = 0; d < 2; d++) {
      double b[4][2];
      UNROLL for (int q = 0; q < 4; q++) {
        const u32 at = (base + ((4 * d + q) ^ code)) * 2 + j * (4 * 4 * 8 * 2);
        b[q][0] = values[at + odd];
        b[q][1] = signed_by(values[at + (odd ^ 1)], flip);
      }
      UNROLL for (int u = 0; u < TOGETHER; u++) {
        double re[2][4], im[2][4];
        UNROLL for (int half = 0; half < 2; half++) {
          const u32 e = u32(packed[u][half] >> (16 * j)) & 0xFFFF;
          // Two threads of a tile are 16 apart in the reversed order, and four times that in the angle.
          turned_roots(re[half], im[half], roots[e * (turn + 64 * d) & (2 * N - 1)], e);
        }
        UNROLL for (int q = 0; q < 4; q++) multiply_16x8x4(c[u][d][q], re[0][q], re[1][q], b[q][0]);
        UNROLL for (int q = 0; q < 4; q++) multiply_16x8x4(c[u][d][q], im[0][q], im[1][q], b[q][1]);
      }
    }
  }
}

/// Makes the bundles of all steps at the leaves of block `block` of `blocks`. `key`: `[step][tile]`; `packed`: `[step][job][4]`,
/// `stride` jobs from step to step, the last unit filled up with anything. A warp takes TOGETHER units of one tile; the units of all steps are dealt out to the warps in turn.
template <int WARPS, int TOGETHER, int STAGES, int STAGE_TILES, class To>
__device__ __forceinline__ void make_bundles_ahead(const Value* key, const u64* packed, u32 stride, u32 steps, u32 jobs, u32 block,
                                                   u32 blocks, const Value* table, const To& to) {
  using Layout = MakerLayout<STAGES, STAGE_TILES>;
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, units = (jobs + UNIT_JOBS - 1) / UNIT_JOBS;
  const u32 groups = (units + TOGETHER - 1) / TOGETHER, first = block * TILES / blocks, tiles = (block + 1) * TILES / blocks - first;
  const u32 chunks = (tiles + STAGE_TILES - 1) / STAGE_TILES, pieces = steps * chunks;
  Value* const roots = shared_memory<Value>();
  Value* const stages = roots + Layout::KEY_AT;
  u64* const full = reinterpret_cast<u64*>(roots + Layout::BARRIERS_AT);
  u64* const empty = full + STAGES;
  for (u32 x = threadIdx.x; x < 2 * N; x += 32 * WARPS) roots[x] = read(&table[ROOTS_AT + x]);
  const bool leader = threadIdx.x == 0;
  auto tiles_of = [&](u32 chunk) { return tiles - chunk * STAGE_TILES < STAGE_TILES ? tiles - chunk * STAGE_TILES : STAGE_TILES; };
  auto fetch = [&](u32 piece) {
    const u32 stage = piece % STAGES, chunk = piece % chunks, bytes = tiles_of(chunk) * TILE_VALUES * u32(sizeof(Value));
    mbarrier_expect(&full[stage], bytes);
    bulk_copy(stages + stage * STAGE_TILES * TILE_VALUES, key + (u64(piece / chunks) * TILES + first + chunk * STAGE_TILES) * TILE_VALUES, bytes, &full[stage]);
  };
  if (leader) {
    for (int stage = 0; stage < STAGES; stage++) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], WARPS);
    }
    mbarriers_ready();
    for (u32 piece = 0; piece < STAGES - 1 && piece < pieces; piece++) fetch(piece);
  }
  named_barrier(1, 32 * WARPS);
  u32 offset = warp;
  // The unit before this one, of which nobody has been told yet.
  u32 *pending = nullptr, told = 0;
  auto tell = [&] {
    if (lane == 0 && pending) {
      UNROLL for (int u = 0; u < TOGETHER; u++) {
        if (u < int(told)) raise_flag(pending + u, 1);
      }
    }
    pending = nullptr;
  };
  LOOP
  for (u32 piece = 0; piece < pieces; piece++) {
    const u32 stage = piece % STAGES, step = piece / chunks, chunk = piece % chunks, here = tiles_of(chunk), ahead = piece + STAGES - 1;
    if (leader && ahead < pieces) {
      if (ahead >= STAGES && !planted<28>()) mbarrier_wait(&empty[ahead % STAGES], (ahead / STAGES + 1) & 1);
      fetch(ahead);
    }
    __syncwarp();
    // A warp without a unit of this piece waits too: if it went on and came to the stage again, it would arrive in another's place.
    if (!planted<29>()) mbarrier_wait(&full[stage], piece / STAGES & 1);
    LOOP
    for (; offset < here * groups; offset += WARPS) {
      const u32 local = offset % here, tile = first + chunk * STAGE_TILES + local, unit = offset / here * TOGETHER;
      const u32 number = step * units + unit, count = units - unit < TOGETHER ? units - unit : TOGETHER;
      const u64* const of_unit = packed + (u64(step) * stride + unit * UNIT_JOBS + lane / 4) * 4 + lane % 4;
      u64 exponents[TOGETHER][2];
      double c[TOGETHER][2][4][4];
      UNROLL for (int u = 0; u < TOGETHER; u++) {
        const u64* const from = of_unit + (u < int(count) ? u : 0) * (UNIT_JOBS * 4);
        exponents[u][0] = __ldg(from);
        exponents[u][1] = __ldg(from + 8 * 4);
        UNROLL for (int i = 0; i < 32; i++) c[u][i / 16][i / 4 % 4][i % 4] = 0;
      }
      const u32 turn = 4 * reversed<LOG2_M>(tile / 8 * 64 + tile % 8 * 4) + 1;
      const Value* const values = stages + (stage * STAGE_TILES + local) * TILE_VALUES;
      multiply_tile<TOGETHER>(c, reinterpret_cast<const double*>(values), exponents, roots, turn, lane);
      // The stores of the unit before have arrived meanwhile.
      if (!To::AT_ONCE) tell();
      if (lane == 0 && !planted<30>()) {
        UNROLL for (int u = 0; u < TOGETHER; u++) {
          if (u < int(count)) to.await_room(number + u);
        }
      }
      __syncwarp();
      UNROLL for (int u = 0; u < TOGETHER; u++) {
        UNROLL for (int half = 0; half < 2; half++) {
          const u32 job = lane / 4 + 8 * half;
          if ((unit + u) * UNIT_JOBS + job >= jobs) continue;
          Value* const out = to.place(number + u, unit + u, job, tile, lane % 4);
          UNROLL for (int d = 0; d < 2; d++) {
            UNROLL for (int q = 0; q < 4; q++) {
              store_through(out + d * To::THREAD + q * To::REGISTER, make_double2(c[u][d][q][2 * half], c[u][d][q][2 * half + 1]));
            }
          }
        }
      }
      pending = to.flag(number, tile), told = count;
      __syncwarp();
      if (To::AT_ONCE) tell();
    }
    offset -= here * groups;
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&empty[stage]);
  }
  tell();
}
