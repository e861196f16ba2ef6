// The blind rotation of a batch: one kernel whose first blocks rotate a ciphertext each and whose other blocks make the bundles of all
// (`streams.cuh`), all of them at once on the device. Bundles go through a ring of slots that stays in the second-level cache.
//
// A ciphertext is eight warps, eight points a lane. In time four warps have a polynomial, and thread u the points u + 128q. Among the
// leaves half a warp has 128 of a polynomial and the other half those of the other one, so that the product takes shuffles alone:
//
//   digits, 3 levels → block → 3 levels → warp → 3 levels → pair of lanes → 1 level → product
//
// and the same way back. A thread writes where it has read last, so the exchanges of a step have two barriers of the block and need
// one place. A spare thread brings the bundles of the next steps into shared memory.
// Cost of a step: 664 operations in doubles for each of 256 threads, and about 3800 accesses of 128 bytes to shared memory, shuffles among them.
#pragma once
#include "leaves.cuh"
#include "rotate.cuh"

/// Factors of the three outermost levels of the transform, ζ^(x/2) of the even nodes of each level in turn, and of the third innermost
/// one back: the same for every thread. As `src/tables.rs` has them.
CONSTANT double2 outer_factors[4] = {{0.7071067811865476, 0.7071067811865475},
                                     {0.9238795325112867, 0.3826834323650898},
                                     {0.9807852804032304, 0.19509032201612825},
                                     {0.5555702330196022, 0.8314696123025452}};
CONSTANT double2 inner_factors_back[2] = {{1.0, 0.0}, {0.7071067811865475, -0.7071067811865476}};

/// Of a block that rotates, in values: the points of both polynomials, two bundles, the twist, mbarriers for bundles that are there
/// and for those that were read.
struct BatchLayout {
  static constexpr int WARPS = 8, WORKERS = 32 * WARPS, STAGES = 2;
  /// As many as change their registers together, of which one thread fetches.
  static constexpr int BLOCK_THREADS = WORKERS + 128;
  static constexpr int RING_AT = 2 * M, TWIST_AT = RING_AT + STAGES * BUNDLE_VALUES, BARRIERS_AT = TWIST_AT + M;
  static constexpr int BYTES = BARRIERS_AT * int(sizeof(Value)) + 2 * STAGES * int(sizeof(u64));
  static constexpr u32 BUNDLE_BYTES = BUNDLE_VALUES * sizeof(Value);
};

/// The group of eight leaves of a lane of half a warp: `ToRing` says why it is not its number.
__device__ __forceinline__ u32 leaf_group(u32 i) { return (i & 8) | (i << 2 & 4) | (i >> 1 & 3); }

/// The factors of three levels, by which `split` and `join` find those of all nodes.
struct FourFactors {
  Value of[4];
  __device__ __forceinline__ Value operator()(int i) const { return of[i]; }
};
/// The factor of node `v` of a depth.
template <int DEPTH>
__device__ __forceinline__ Value node_factor(const Value* table, u32 v) {
  return root(table, ((N / 2 + 2 * N * reversed<DEPTH>(v)) >> DEPTH) / 2);
}
template <int DEPTH>
__device__ __forceinline__ FourFactors split_three(const Value* table, u32 v) {
  return {{node_factor<DEPTH>(table, v), node_factor<DEPTH + 1>(table, 2 * v), node_factor<DEPTH + 2>(table, 4 * v),
           node_factor<DEPTH + 2>(table, 4 * v + 2)}};
}
/// At place ρ, where blocks of `half` points are joined, then those of twice and of four times as many.
__device__ __forceinline__ FourFactors join_three(const Value* table, u32 half, u32 rho) {
  return {{root(table, 0 - N / half * rho), root(table, 0 - N / half / 2 * rho), root(table, 0 - N / half / 4 * rho),
           root(table, 0 - N / half / 4 * (rho + half))}};
}

/// Two lanes, of groups that follow each other, exchange half of what they have: the even group's keeps its first and the odd one's its
/// second. Then each has the even one's, and the odd one's.
__device__ __forceinline__ void exchange_in_pair(Value& first, Value& second, bool odd) {
  const Value sent = odd ? first : second, kept = odd ? second : first;
  const Value got = make_double2(__shfl_xor_sync(~0u, sent.x, 2), __shfl_xor_sync(~0u, sent.y, 2));
  first = odd ? got : kept;
  second = odd ? kept : got;
}

/// Brings the bundle of every step into shared memory. One thread.
__device__ __forceinline__ void fetch_from_ring(Value* block, u64* full, u64* empty, const ToRing& from, u32 steps) {
  const u32 job = blockIdx.x;
  u32 number = job / UNIT_JOBS, slot = number;
  Turn<BatchLayout::STAGES> turn, before;
  // When a bundle is here its slot is free.
  auto tell = [&] {
    if (!planted<33>()) mbarrier_wait(&full[before.stage], before.round & 1);
    count_flag(from.read + number - from.units, 1);
    before.next();
  };
  LOOP
  for (u32 step = 0; step < steps; step++, turn.next()) {
    if (turn.round > 0 && !planted<31>()) mbarrier_wait(&empty[turn.stage], (turn.round - 1) & 1);
    // It may be the room for this one.
    const bool late = step > 0 && read_flag(from.made + number) < TILES;
    if (late) tell();
    if (!planted<32>()) await_flag(from.made + number, TILES);
    async_fence();
    mbarrier_expect(&full[turn.stage], BatchLayout::BUNDLE_BYTES);
    bulk_copy(block + BatchLayout::RING_AT + turn.stage * BUNDLE_VALUES, from.ring + (u64(slot) * UNIT_JOBS + job % UNIT_JOBS) * BUNDLE_VALUES,
              BatchLayout::BUNDLE_BYTES, &full[turn.stage]);
    if (step > 0 && !late) tell();
    number += from.units;
    slot = slot + from.units < from.slots ? slot + from.units : slot + from.units - from.slots;
  }
}

/// All steps of the block's ciphertext, by its first warps.
__device__ __forceinline__ void rotate_by_block(Coefficient* acc, Value* block, u64* full, u64* empty, u32 steps, const Value* table) {
  const u32 warp = threadIdx.x / 32, column = threadIdx.x / 128, u = threadIdx.x % 128;
  const u32 half = threadIdx.x / 16 % 2, i = threadIdx.x % 16, group = leaf_group(i), node = group / 2;
  const bool odd = group & 1;
  Coefficient* const home = acc + (u64(blockIdx.x) * COLUMNS + column) * N;
  const Value* const twist = block + BatchLayout::TWIST_AT + u;
  // Points p of 128 lie at p ^ turned(p / 16): lanes that read or write at once meet in no bank.
  auto turned = [](u32 block_of_16) { return (block_of_16 & 3) * 2; };
  Value* const outer = block + 128 * column + (u ^ turned(u / 16));
  Value* const here = block + 256 * warp + 128 * half;
  Value *by_point[4], *by_node[4];
  UNROLL for (u32 q = 0; q < 4; q++) {
    by_point[q] = here + (i ^ (2 * q));
    by_node[q] = here + 16 * node + ((2 * q + (group & 1)) ^ turned(node));
  }
  auto at_point = [&](int q) { return by_point[q & 3] + 16 * q; };
  auto at_node = [&](int q) { return by_node[q & 3] + 8 * (q >> 2); };
  const FourFactors down16 = split_three<3>(table, warp), down2 = split_three<6>(table, 8 * warp + node);
  const FourFactors up16 = join_three(table, 16, i), up128 = join_three(table, 128, u);
  const u32 last_node = 8 * (8 * warp + node) + 4 * (group & 1);
  const Value down1[2] = {node_factor<9>(table, last_node), node_factor<9>(table, last_node + 2)};
  const Value up8[2] = {root(table, 0 - N / 8 * (group & 1)), root(table, 0 - N / 8 * (2 + (group & 1)))};
  const u32 own = 512 * warp + i * 4 + ((2 * half) ^ (i >> 1 & 3)), other = own ^ 1;
  Value a[8];
  UNROLL for (int q = 0; q < 8; q++) a[q] = kept_point(home, int(u) + 128 * q);
  Turn<BatchLayout::STAGES> turn;
  LOOP
  for (u32 step = 0; step < steps; step++) {
    Value z[8];
    UNROLL for (int q = 0; q < 8; q++) z[q] = rounded(a[q]);
    split<3>(z, [](int n) { return outer_factors[n]; });
    UNROLL for (int q = 0; q < 8; q++) outer[256 * q] = z[q];
    if (!planted<34>()) named_barrier(1, BatchLayout::WORKERS);
    UNROLL for (int q = 0; q < 8; q++) z[q] = *at_point(q);
    split<3>(z, down16);
    UNROLL for (int q = 0; q < 8; q++) *at_point(q) = z[q];
    if (!planted<35>()) __syncwarp();
    UNROLL for (int q = 0; q < 8; q++) z[q] = *at_node(q);
    split<3>(z, down2);
    // The even lane of a pair takes the nodes of the first four registers.
    UNROLL for (int k = 0; k < 4; k++) exchange_in_pair(z[k], z[k + 4], odd);
    UNROLL for (int k = 0; k < 4; k++) butterfly(z[k], z[k + 4], k & 1 ? times_i(down1[k / 2]) : down1[k / 2]);
    // Leaf 2k + b is in register k + 4b.
    if (!planted<36>()) mbarrier_wait(&full[turn.stage], turn.round & 1);
    const Value* const bundle = block + BatchLayout::RING_AT + turn.stage * BUNDLE_VALUES;
    UNROLL for (int k = 0; k < 4; k++) {
      UNROLL for (int b = 0; b < 2; b++) {
        Value& x = z[k + 4 * b];
        const int leaf = 2 * k + b;
        const Value theirs = make_double2(__shfl_xor_sync(~0u, x.x, 16), __shfl_xor_sync(~0u, x.y, 16));
        x = multiply_add(theirs, bundle[64 * leaf + other], x * bundle[64 * leaf + own]);
      }
    }
    if (!planted<37>()) __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[turn.stage]);
    turn.next();
    Value y[8];
    UNROLL for (int k = 0; k < 4; k++) y[2 * k] = z[k], y[2 * k + 1] = z[k + 4];
    join_first<2>(y);
    join_first<2>(y + 4);
    UNROLL for (int r = 0; r < 4; r++) {
      const Value first = inner_factors_back[r % 2];
      butterfly(y[r], y[r + 4], r < 2 ? first : times_minus_i(first));
    }
    // The even lane of a pair takes the even points.
    UNROLL for (int k = 0; k < 4; k++) exchange_in_pair(y[2 * k], y[2 * k + 1], odd);
    UNROLL for (int k = 0; k < 4; k++) {
      butterfly(y[2 * k], y[2 * k + 1], k < 2 ? up8[k] : times_minus_i(up8[k - 2]));
      *at_node(k) = y[2 * k];
      *at_node(k + 4) = y[2 * k + 1];
    }
    if (!planted<38>()) __syncwarp();
    UNROLL for (int q = 0; q < 8; q++) z[q] = *at_point(q);
    join<3>(z, up16);
    UNROLL for (int q = 0; q < 8; q++) *at_point(q) = z[q];
    if (!planted<39>()) named_barrier(1, BatchLayout::WORKERS);
    UNROLL for (int q = 0; q < 8; q++) z[q] = outer[256 * q];
    join<3>(z, up128);
    UNROLL for (int q = 0; q < 8; q++) a[q] = accumulate(a[q], z[q] * twist[128 * q]);
  }
  UNROLL for (int q = 0; q < 8; q++) scatter(home, int(u) + 128 * q, a[q]);
}

/// Tiles of the key that a block that makes bundles has in shared memory at once, and how many times.
constexpr int BATCH_STAGES = 4, BATCH_STAGE_TILES = 2;

/// Grid: `jobs` blocks that rotate, and others that make bundles; all must be on the device at once. `flags`: zeros, two for each step
/// and unit of 16 jobs. `slots`: bundles that the ring holds, in units, two for each unit of `jobs` and 6 at least: a warp that makes
/// bundles tells of a unit after its next one, which must have room.
__device__ __forceinline__ void rotate_batch(Coefficient* acc, Value* ring, u32* flags, const Value* key, const u64* packed, u32 stride,
                                             u32 steps, u32 jobs, u32 slots, const Value* table) {
  using Layout = BatchLayout;
  const u32 units = (jobs + UNIT_JOBS - 1) / UNIT_JOBS;
  const ToRing to{ring, slots, jobs, units, flags, flags + steps * units};
  if (blockIdx.x >= jobs) {
    // A warp with one unit at a time has registers enough without those that rotations give each other.
    make_bundles_ahead<Layout::BLOCK_THREADS / 32, 1, BATCH_STAGES, BATCH_STAGE_TILES>(key, packed, stride, steps, jobs, blockIdx.x - jobs,
                                                                                      gridDim.x - jobs, table, to);
    return;
  }
  Value* const block = shared_memory<Value>();
  u64* const full = reinterpret_cast<u64*>(block + Layout::BARRIERS_AT);
  u64* const empty = full + Layout::STAGES;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Layout::STAGES; stage++) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], Layout::WARPS);
    }
    mbarriers_ready();
  }
  for (u32 j = threadIdx.x; j < u32(M); j += Layout::BLOCK_THREADS) block[Layout::TWIST_AT + j] = read(&table[TWIST_AT + j]);
  __syncthreads();
  if (threadIdx.x < Layout::WORKERS) {
    grow_registers<232>();
    rotate_by_block(acc, block, full, empty, steps, table);
  } else {
    shrink_registers<40>();
    if (threadIdx.x == Layout::WORKERS) fetch_from_ring(block, full, empty, to, steps);
  }
}
