// Blind rotation with the least latency, for one shape (BECALM_STREAMED): 2048 coefficients, two polynomials, one digit, groups
// of four bits. One ciphertext is rotated by a cluster of 16 blocks, or of 4 where there are more ciphertexts.
//
// A block has a part of the leaves of both polynomials, not a column as in `rotate.cuh`. So the product with the bundle is local,
// and what crosses the cluster takes the place of an exchange inside a transform: 16 bytes a point on the way to the leaves, and
// again on the way back. A thread always has four points, of which a pass takes two levels in registers:
//
//   digits, outer levels → cluster → inner levels → product → inner levels → cluster → outer levels, twist, accumulator
//
// The six innermost levels are the same for 16 blocks and for 4: half a warp has the 64 leaves of a polynomial in a part of the
// transform, the other half has those of the other polynomial, and they change hands by shuffles. A step has no barrier of the
// cluster: each block counts the bytes that are sent to it.
//
// Another kernel makes the bundles at the same time (`make_bundles_in_order`; the tensor cores for two or more) and leaves them in
// global memory. A spare thread of each block brings them into a ring in shared memory when their flags are up, some steps ahead
// of their use.
//
// Words do not depend on the path: bundles have one order of sums (`sum_of_products`), and a transform has one form. Forward, all
// levels are butterflies with roots from the table. Back, the two innermost levels have no factors and all others have, those
// by 1 too.
//
// Key:     [step][tile][monomial][polynomial][leaf ^ code], polynomial = 2·row + column, leaf = 4d + q,
//          code = 2·(monomial % 4) + row. Tile τ has the leaves 64·(τ/8) + 32d + 4·(τ % 8) + q of the transform. The last monomial
//          is 1 and its values are minus the sum of the others', so that the sum of all products is Σ_v (X^(e_v) − 1)·GGSW_v.
// Bundles: [job][step][part][q][i][place], leaf 64·part + 4i + q. Place n ^ (i/2 % 4) has column n/2, and its own row for an even
//          n, the other row for an odd one. So eight lanes that read one after another of the records i … i + 7 meet in no bank.
// Flags:   [job/16][step][quarter] counts the tiles of a quarter of the leaves that are there for all of these 16 jobs.
#pragma once
#include "rotate.cuh"
#include "streams.cuh"

constexpr int PARTS = 16, PART_VALUES = BUNDLE_VALUES / PARTS, QUARTER_TILES = TILES / 4;
constexpr u32 TILE_BYTES = TILE_VALUES * sizeof(Value);
static_assert(M == 1024 && ROWS == 2 && COLUMNS == 2 && GGSWS == 15 && TILES * 8 == M, "the shape of these kernels");

/// The flag of a step and a quarter of the leaves, of 16 jobs.
__device__ __forceinline__ u64 flag_at(u32 job, u32 steps, u32 step, u32 quarter) {
  return (u64(job / 16) * steps + step) * 4 + quarter;
}

/// ζ^x
__device__ __forceinline__ Value root(const Value* table, u32 x) { return read(&table[ROOTS_AT + (x & (2 * N - 1))]); }

/// The factors of two levels, by which `split` and `join` find those of all nodes.
struct Factors {
  Value of[2];
  __device__ __forceinline__ Value operator()(int i) const { return of[i]; }
};
/// Of the remainder tree below node `v` of an even depth: ζ^(x/2) and ζ^(x/4), where the node is modulo ζ^x.
template <int DEPTH>
__device__ __forceinline__ Factors split_factors(const Value* table, u32 v) {
  const u32 x = (N / 2 + 2 * N * reversed<DEPTH>(v)) >> DEPTH;
  return {{root(table, x / 2), root(table, x / 4)}};
}
/// Of decimation in time at place ρ, where blocks of `half` points are joined and then those of twice as many.
__device__ __forceinline__ Factors join_factors(const Value* table, u32 half, u32 rho) {
  return {{root(table, 0 - N / half * rho), root(table, 0 - N / half / 2 * rho)}};
}

/// What lies where in a block, in values; the mbarriers behind.
template <int BLOCKS>
struct LeavesLayout {
  static constexpr int WARPS = PARTS / BLOCKS, WORKERS = 32 * WARPS;
  /// As many more warps, one thread of which fetches. A quarter of an SM has 512 registers for each lane. Of five warps it would hold
  /// two, and no room would be left for a block that makes bundles; of four and four with 128 registers, half of its registers is
  /// left, and the second four give most of theirs to the first.
  static constexpr int BLOCK_THREADS = 2 * WORKERS;
  /// Points of a polynomial in a block; those of both.
  static constexpr int COLUMN = M / BLOCKS, HERE = 2 * COLUMN;
  /// A block's piece of a bundle, and how many of them the ring holds.
  static constexpr int PIECE = WARPS * PART_VALUES, STAGES = BLOCKS == 16 ? 8 : 3;
  /// Points that come from the cluster, on the way to the leaves and back; exchanges among the inner levels, and among the outer
  /// ones, which a block of one warp has.
  static constexpr int FIRST_AT = 0, SECOND_AT = HERE, INNER_AT = 2 * HERE, OUTER_AT = 3 * HERE;
  static constexpr int RING_AT = OUTER_AT + (BLOCKS == 16 ? HERE : 0), BARRIERS_AT = RING_AT + STAGES * PIECE;
  static constexpr int BYTES = BARRIERS_AT * int(sizeof(Value)) + (2 + 2 * STAGES) * int(sizeof(u64));
  static constexpr u32 ARRIVING = HERE * sizeof(Value), PIECE_BYTES = PIECE * sizeof(Value);
};

/// The mbarriers of a block: for what comes from the cluster, for pieces of bundles that are there, and for those that were read.
template <int BLOCKS>
struct LeavesBarriers {
  using Layout = LeavesLayout<BLOCKS>;
  u64 *const first, *const second, *const full, *const empty;
  __device__ __forceinline__ explicit LeavesBarriers(Value* block)
      : first(reinterpret_cast<u64*>(block + Layout::BARRIERS_AT)), second(first + 1), full(first + 2),
        empty(full + Layout::STAGES) {}
  __device__ __forceinline__ void init() const {
    mbarrier_init(first, 1);
    mbarrier_init(second, 1);
    for (int stage = 0; stage < Layout::STAGES; stage++) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], Layout::WARPS);
    }
    mbarriers_ready();
    mbarrier_expect(first, Layout::ARRIVING);
    mbarrier_expect(second, Layout::ARRIVING);
  }
};

/// A stage of the ring and the rounds that it has been through.
template <int STAGES>
struct Turn {
  u32 stage = 0, round = 0;
  __device__ __forceinline__ void next() {
    if (++stage == STAGES) stage = 0, round++;
  }
};

/// Brings the block's piece of every bundle into the ring. One thread.
template <int BLOCKS>
__device__ __forceinline__ void fetch_bundles(Value* block, const LeavesBarriers<BLOCKS>& barriers, const Value* bundles,
                                              u64 job_stride, const u32* flags, u32 steps) {
  using Layout = LeavesLayout<BLOCKS>;
  const u32 rank = cluster_rank(), job = blockIdx.x / BLOCKS;
  const Value* from = bundles + job * job_stride + rank * Layout::PIECE;
  const u32* flag = flags + flag_at(job, steps, 0, rank * 4 / BLOCKS);
  Turn<Layout::STAGES> turn;
  LOOP
  for (u32 step = 0; step < steps; step++, from += BUNDLE_VALUES, flag += 4, turn.next()) {
    if (turn.round > 0 && !planted<20>()) mbarrier_wait(&barriers.empty[turn.stage], (turn.round - 1) & 1);
    if (!planted<21>()) await_flag(flag, QUARTER_TILES);
    async_fence();
    mbarrier_expect(&barriers.full[turn.stage], Layout::PIECE_BYTES);
    bulk_copy(block + Layout::RING_AT + turn.stage * Layout::PIECE, from, Layout::PIECE_BYTES, &barriers.full[turn.stage]);
  }
}

/// Sends each register to a block of the cluster.
__device__ __forceinline__ void send(const Value* z, const Remote* to, const Remote* barriers) {
  UNROLL for (int q = 0; q < 4; q++) store_remote(to[q], z[q], barriers[q]);
}
/// Waits for what the cluster sends, and takes four values. One place is enough for all steps: a block sends the next values after
/// it has had everybody's answer to these, when everybody has read them. Bytes may come before they are expected.
__device__ __forceinline__ void receive(Value* z, const Value* from, int distance, u64* barrier, u32 bytes, u32 step) {
  if (!planted<17>()) mbarrier_wait(barrier, step & 1);
  UNROLL for (int q = 0; q < 4; q++) z[q] = from[distance * q];
  if (threadIdx.x == 0) mbarrier_expect(barrier, bytes);
}

/// Where one of the 64 points of half a warp lies: eight lanes never meet in a bank.
__device__ __forceinline__ u32 leaf_place(u32 point) { return point ^ (point >> 3 & 1) ^ ((point >> 4 & 1) * 6); }

/// The same number, as one that the compiler cannot compute again. It would do so in every step of a kernel that begins with few
/// registers.
__device__ __forceinline__ u32 settled(u32 x) { return __shfl_xor_sync(~0u, x, 0); }

/// Exchanges inside a warp. A lane writes what it has read last, so one barrier is enough.
__device__ __forceinline__ void exchange_in_warp(Value* z, Value* const* to, Value* const* from) {
  UNROLL for (int q = 0; q < 4; q++) *to[q] = z[q];
  if (!planted<16>()) __syncwarp();
  UNROLL for (int q = 0; q < 4; q++) z[q] = *from[q];
}

/// The accumulators of a launch, and how they begin: as they lie, or as tables turned by the bodies' exponents (`load_table`), of which
/// then each thread takes its own points.
struct Accumulators {
  Coefficient* at;
  const u64* const* tables;
  const u32* exponents;
  u32 width;
  __device__ __forceinline__ Coefficient* polynomial(u32 job, u32 column) const { return at + (u64(job) * COLUMNS + column) * N; }
  __device__ __forceinline__ Value point(u32 job, u32 column, u32 j) const {
    if (!tables) return kept_point(polynomial(job, column), j);
    const u64* const table = tables[job * COLUMNS + column];
    if (!table) return zero();
    const u32 turn = (2 * N - exponents[u64(job) * width + width - 1]) & (2 * N - 1);
    return gather(j, [&](int i) { return from_torus(rotated<u64>(i, turn, [&](u32 from) { return table[from]; })); });
  }
};

/// Four points of time of a polynomial, at distance M/4: their two outermost levels, and the accumulator.
struct OuterPoints {
  Coefficient* const home;
  const u32 rho;
  const Factors down, up;
  Value a[4], twist[4];
  __device__ __forceinline__ OuterPoints(const Accumulators& acc, u32 job, u32 column, u32 rho, const Value* table)
      : home(acc.polynomial(job, column)), rho(rho), down(split_factors<0>(table, 0)), up(join_factors(table, M / 4, rho)) {
    UNROLL for (int q = 0; q < 4; q++) {
      twist[q] = read(&table[TWIST_AT + rho + M / 4 * q]);
      a[q] = acc.point(job, column, rho + M / 4 * q);
    }
  }
  __device__ __forceinline__ void digits(Value* z) {
    UNROLL for (int q = 0; q < 4; q++) z[q] = rounded(a[q]);
    split<2>(z, down);
  }
  __device__ __forceinline__ void add(Value* z) {
    join<2>(z, up);
    UNROLL for (int q = 0; q < 4; q++) a[q] = accumulate(a[q], z[q] * twist[q]);
  }
  __device__ __forceinline__ void store() const {
    UNROLL for (int q = 0; q < 4; q++) scatter(home, rho + M / 4 * q, a[q]);
  }
};

/// The 64 leaves of a polynomial in one part, by half a warp: the six levels around them, and the product with the bundle.
struct InnerLeaves {
  const Factors down64, down16, down4, up4, up16;
  /// The half warp's points i + 16q; then those of four blocks of 16, and of sixteen blocks of 4.
  Value *of64[4], *of16[4], *of4[4];
  /// The lane's records in a part of the bundle: own row and other row.
  u32 own_at, other_at;

  __device__ __forceinline__ InnerLeaves(Value* block, u32 exchange, u32 part, u32 lane, const Value* table)
      : down64(split_factors<4>(table, part)), down16(split_factors<6>(table, 4 * part + lane % 16 / 4)),
        down4(split_factors<8>(table, 16 * part + lane % 16)), up4(join_factors(table, 4, lane % 4)),
        up16(join_factors(table, 16, lane % 16)) {
    const u32 i = lane % 16, g = i / 4, f = i % 4, column = lane / 16;
    const u32 mine = exchange + 64 * column;
    UNROLL for (int q = 0; q < 4; q++) {
      of64[q] = block + settled(mine + leaf_place(16 * q + i));
      of16[q] = block + settled(mine + leaf_place(16 * g + 4 * q + f));
      of4[q] = block + settled(mine + leaf_place(16 * g + 4 * f + q));
    }
    own_at = settled(4 * i + ((2 * column) ^ (i / 2 % 4)));
    other_at = own_at ^ 1;
  }
  __device__ __forceinline__ void take(Value* own, Value* other, const Value* part) const {
    UNROLL for (int q = 0; q < 4; q++) {
      own[q] = part[64 * q + own_at];
      other[q] = part[64 * q + other_at];
    }
  }
  /// From points i + 16q to leaves 4i + q.
  __device__ __forceinline__ void forward(Value* z) const {
    split<2>(z, down64);
    exchange_in_warp(z, of64, of16);
    split<2>(z, down16);
    exchange_in_warp(z, of16, of4);
    split<2>(z, down4);
  }
  /// The other polynomial's leaves are in the other half of the warp.
  __device__ __forceinline__ void multiply(Value* z, const Value* own, const Value* other) const {
    UNROLL for (int q = 0; q < 4; q++) {
      const Value theirs = make_double2(__shfl_xor_sync(~0u, z[q].x, 16), __shfl_xor_sync(~0u, z[q].y, 16));
      z[q] = multiply_add(theirs, other[q], z[q] * own[q]);
    }
  }
  /// From leaves to points.
  __device__ __forceinline__ void back(Value* z) const {
    join_first<2>(z);
    exchange_in_warp(z, of4, of16);
    join<2>(z, up4);
    exchange_in_warp(z, of16, of64);
    join<2>(z, up16);
  }
};

/// The bundle of a step from the ring into registers, and the stage is free. A warp.
template <int BLOCKS>
__device__ __forceinline__ void take_bundle(Value* own, Value* other, const InnerLeaves& leaves, const Value* part,
                                            const LeavesBarriers<BLOCKS>& barriers, Turn<LeavesLayout<BLOCKS>::STAGES>& turn) {
  if (!planted<18>()) mbarrier_wait(&barriers.full[turn.stage], turn.round & 1);
  leaves.take(own, other, part + turn.stage * LeavesLayout<BLOCKS>::PIECE);
  if (!planted<19>()) __syncwarp();
  if (threadIdx.x % 32 == 0) mbarrier_arrive(&barriers.empty[turn.stage]);
  turn.next();
}

/// All steps in a block of 16, by one warp. Half of it has a polynomial, in time as among the leaves. Lane 4g + f of a half has the
/// points 4·rank + g + 64·(f + 4q) of time.
__device__ __forceinline__ void rotate_by_warp(const Accumulators& acc, Value* block, const LeavesBarriers<16>& barriers, u32 steps,
                                               const Value* table) {
  using Layout = LeavesLayout<16>;
  const u32 rank = cluster_rank(), lane = threadIdx.x, column = lane / 16, i = lane % 16, g = i / 4, f = i % 4, at = 4 * rank + g;
  OuterPoints points(acc, blockIdx.x / 16, column, at + 64 * f, table);
  const Factors down = split_factors<2>(table, f), up = join_factors(table, 64, at);
  const InnerLeaves leaves(block, Layout::INNER_AT, rank, lane, table);
  Value *by_point[4], *by_node[4];
  Remote first_to[4], first_barriers[4], second_to[4], second_barriers[4];
  Value* const first = block + Layout::FIRST_AT + Layout::COLUMN * column;
  Value* const second = block + Layout::SECOND_AT + Layout::COLUMN * column;
  Value* const outer = block + Layout::OUTER_AT + Layout::COLUMN * column;
  UNROLL for (int q = 0; q < 4; q++) {
    by_point[q] = outer + leaf_place(16 * g + 4 * f + q);
    by_node[q] = outer + leaf_place(16 * g + 4 * q + f);
    // Node 4f + q of depth 4 is part 4f + q; the points 4b … 4b + 3 of a part go back to block b.
    first_to[q] = remote(first + at, 4 * f + q);
    first_barriers[q] = remote(barriers.first, 4 * f + q);
    second_to[q] = remote(second + 16 * (rank % 4) + 4 * f + rank / 4, 4 * q + g);
    second_barriers[q] = remote(barriers.second, 4 * q + g);
  }
  Turn<Layout::STAGES> turn;
  LOOP
  for (u32 step = 0; step < steps; step++) {
    Value z[4], own[4], other[4];
    points.digits(z);
    exchange_in_warp(z, by_point, by_node);
    split<2>(z, down);
    send(z, first_to, first_barriers);
    take_bundle<16>(own, other, leaves, block + Layout::RING_AT, barriers, turn);
    receive(z, first + i, 16, barriers.first, Layout::ARRIVING, step);
    leaves.forward(z);
    leaves.multiply(z, own, other);
    leaves.back(z);
    send(z, second_to, second_barriers);
    receive(z, second + i, 16, barriers.second, Layout::ARRIVING, step);
    join<2>(z, up);
    exchange_in_warp(z, by_node, by_point);
    points.add(z);
  }
  points.store();
}

/// All steps in a block of 4, by four warps. In time two warps have a polynomial, a thread the points 64·rank + u + 256q. Among the
/// leaves a warp has a part of both.
__device__ __forceinline__ void rotate_by_warps(const Accumulators& acc, Value* block, const LeavesBarriers<4>& barriers, u32 steps,
                                                const Value* table) {
  using Layout = LeavesLayout<4>;
  const u32 rank = cluster_rank(), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const u32 column = threadIdx.x / 64, u = threadIdx.x % 64;
  OuterPoints points(acc, blockIdx.x / 4, column, 64 * rank + u, table);
  const Factors down = split_factors<2>(table, rank), up = join_factors(table, 64, u);
  const InnerLeaves leaves(block, Layout::INNER_AT + 128 * warp, 4 * rank + warp, lane, table);
  // A thread of the block has one point in each warp's part.
  Value* const shared = block + Layout::INNER_AT + 64 * column + leaf_place(u);
  Value* const first = block + Layout::FIRST_AT + Layout::COLUMN * column + u;
  Value* const second = first + (Layout::SECOND_AT - Layout::FIRST_AT);
  // The second message goes where the first went, so many bytes further.
  constexpr int SECOND = (Layout::SECOND_AT - Layout::FIRST_AT) * int(sizeof(Value));
  Remote to[4], to_barriers[4];
  UNROLL for (int q = 0; q < 4; q++) {
    to[q] = remote(first + 64 * rank, q);
    to_barriers[q] = remote(barriers.first, q);
  }
  Turn<Layout::STAGES> turn;
  LOOP
  for (u32 step = 0; step < steps; step++) {
    Value z[4], own[4], other[4];
    points.digits(z);
    send(z, to, to_barriers);
    take_bundle<4>(own, other, leaves, block + Layout::RING_AT + PART_VALUES * warp, barriers, turn);
    receive(z, first, 64, barriers.first, Layout::ARRIVING, step);
    split<2>(z, down);
    UNROLL for (int q = 0; q < 4; q++) shared[128 * q] = z[q];
    if (!planted<22>()) named_barrier(1, Layout::WORKERS);
    UNROLL for (int q = 0; q < 4; q++) z[q] = *leaves.of64[q];
    leaves.forward(z);
    leaves.multiply(z, own, other);
    leaves.back(z);
    UNROLL for (int q = 0; q < 4; q++) *leaves.of64[q] = z[q];
    if (!planted<23>()) named_barrier(1, Layout::WORKERS);
    UNROLL for (int q = 0; q < 4; q++) z[q] = shared[128 * q];
    join<2>(z, up);
    UNROLL for (int q = 0; q < 4; q++) store_remote(to[q] + SECOND, z[q], to_barriers[q] + sizeof(u64));
    receive(z, second, 64, barriers.second, Layout::ARRIVING, step);
    points.add(z);
  }
  points.store();
}

/// `steps` steps of the accumulators, of whose bundles the first is that of step 0. Grid: BLOCKS blocks for each job,
/// in clusters of as many; block BLOCK_THREADS, shared BYTES. A block that leaves has received all that is sent to it.
template <int BLOCKS>
__device__ __forceinline__ void rotate_leaves(const Accumulators& acc, const Value* bundles, u64 job_stride, const u32* flags, u32 steps,
                                              const Value* table) {
  using Layout = LeavesLayout<BLOCKS>;
  Value* const block = shared_memory<Value>();
  const LeavesBarriers<BLOCKS> barriers(block);
  if (threadIdx.x == 0) barriers.init();
  __syncwarp();
  // Nobody sends before every block counts.
  cluster_arrive();
  if (!planted<24>()) cluster_wait();
  if (threadIdx.x >= Layout::WORKERS) {
    if constexpr (BLOCKS == 4) shrink_registers<32>();
    if (threadIdx.x == Layout::WORKERS) fetch_bundles<BLOCKS>(block, barriers, bundles, job_stride, flags, steps);
  } else if constexpr (BLOCKS == 16) {
    rotate_by_warp(acc, block, barriers, steps, table);
  } else {
    grow_registers<224>();
    rotate_by_warps(acc, block, barriers, steps, table);
  }
}

constexpr int STREAM_WARPS = 8, STREAM_THREADS = 32 * STREAM_WARPS;
/// Of a block, in values: two tiles of the key a warp, then a factor for each monomial and leaf of a tile, then two mbarriers.
constexpr int STREAM_FACTORS_AT = STREAM_WARPS * 2 * TILE_VALUES;
constexpr int STREAM_BARRIERS_AT = STREAM_FACTORS_AT + STREAM_WARPS * MONOMIALS * 8;
constexpr int STREAM_BYTES = STREAM_BARRIERS_AT * int(sizeof(Value)) + STREAM_WARPS * 2 * int(sizeof(u64));

/// −a, if `wanted`.
__device__ __forceinline__ Value negated(Value a, bool wanted) {
  const i64 sign = i64(u64(wanted) << 63), x = __double_as_longlong(a.x), y = __double_as_longlong(a.y);
  return make_double2(__longlong_as_double(x ^ sign), __longlong_as_double(y ^ sign));
}

/// The place of a factor: the lanes that write or read at once, eight, meet in no bank.
__device__ __forceinline__ u32 factor_place(u32 monomial, u32 leaf) { return 8 * monomial + (leaf ^ monomial % 4); }

/// The monomials X^e of one step at the leaves of a tile: lane 2v + d looks up one root for the leaves 4d + 0 … 3, where it takes
/// the factors i^(e·(0, 2, 1, 3)).
__device__ __forceinline__ void put_factors(Value* factors, u32 tile, const u32* exponents, u32 lane, const Value* table) {
  const u32 v = lane / 2, d = lane % 2, e = v < u32(GGSWS) ? __ldg(&exponents[v]) : 0;
  const u32 leaf = 64 * (tile / 8) + 32 * d + 4 * (tile % 8);
  const Value first = root(table, e * (1 + 4 * reversed<LOG2_M>(leaf)));
  const Value quarter = e & 1 ? times_i(first) : first;
  factors[factor_place(v, 4 * d)] = first;
  factors[factor_place(v, 4 * d + 1)] = negated(first, e & 1);
  factors[factor_place(v, 4 * d + 2)] = negated(quarter, e >> 1 & 1);
  factors[factor_place(v, 4 * d + 3)] = negated(quarter, (e >> 1 ^ e) & 1);
}

/// Σ_v factor_v·value_v at one leaf of one polynomial, as the tensor cores add: of four monomials the real parts of the factors, then
/// the imaginary ones.
__device__ __forceinline__ Value sum_of_products(const Value* values, const Value* factors, u32 leaf, u32 polynomial) {
  Value sum = zero();
  LOOP
  for (u32 first = 0; first < u32(MONOMIALS); first += 4) {
    Value factor[4], value[4];
    UNROLL for (u32 n = 0; n < 4; n++) {
      factor[n] = factors[factor_place(first + n, leaf)];
      value[n] = values[32 * (first + n) + 8 * polynomial + (leaf ^ (2 * n + polynomial / 2))];
    }
    UNROLL for (u32 n = 0; n < 4; n++) {
      sum.x = fma(factor[n].x, value[n].x, sum.x);
      sum.y = fma(factor[n].x, value[n].y, sum.y);
    }
    UNROLL for (u32 n = 0; n < 4; n++) {
      sum.x = fma(-factor[n].y, value[n].y, sum.x);
      sum.y = fma(factor[n].y, value[n].x, sum.y);
    }
  }
  return sum;
}

/// Place of a polynomial at a leaf of a tile in the bundle of a step.
__device__ __forceinline__ u32 bundle_place(u32 tile, u32 leaf, u32 polynomial) {
  const u32 i = 8 * (leaf / 4) + tile % 8, row = polynomial / 2, column = polynomial % 2;
  const u32 place = (2 * column + (row ^ column)) ^ (i / 2 % 4);
  return tile / 8 * PART_VALUES + (leaf % 4 * 16 + i) * 4 + place;
}

/// Bundles of one ciphertext for all steps, in their order. `exponents`: GGSWS a step. Any grid, block STREAM_THREADS, shared
/// STREAM_BYTES.
///
/// A warp makes a tile of a step by itself, and then the tile that comes as many places later as there are warps; with 128 blocks a
/// block has one tile of every step. The next two tiles of the key are always under way. A warp waits until its stores are seen
/// before it raises a flag, and meanwhile the others go on.
__device__ __forceinline__ void make_bundles_in_order(Value* bundles, u32* flags, const Value* key, const u32* exponents,
                                                      u32 steps, const Value* table) {
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, leaf = lane % 8, polynomial = lane / 8;
  const u32 warps = STREAM_WARPS * gridDim.x, all = steps * TILES;
  Value* const block = shared_memory<Value>();
  Value* const tiles = block + warp * 2 * TILE_VALUES;
  Value* const factors = block + STREAM_FACTORS_AT + warp * MONOMIALS * 8;
  u64* const full = reinterpret_cast<u64*>(block + STREAM_BARRIERS_AT) + 2 * warp;
  u32 work = warp * gridDim.x + blockIdx.x;
  auto fetch = [&](u32 which, u32 stage) {
    if (which >= all) return;
    mbarrier_expect(&full[stage], TILE_BYTES);
    bulk_copy(tiles + stage * TILE_VALUES, key + u64(which) * TILE_VALUES, TILE_BYTES, &full[stage]);
  };
  if (lane == 0) {
    mbarrier_init(&full[0], 1);
    mbarrier_init(&full[1], 1);
    mbarriers_ready();
    fetch(work, 0);
    fetch(work + warps, 1);
  }
  __syncwarp();
  LOOP
  for (u32 n = 0; work < all; n++, work += warps) {
    const u32 step = work / TILES, tile = work % TILES, stage = n & 1;
    put_factors(factors, tile, exponents + step * GGSWS, lane, table);
    if (!planted<25>()) __syncwarp();
    if (!planted<26>()) mbarrier_wait(&full[stage], n >> 1 & 1);
    const Value sum = sum_of_products(tiles + stage * TILE_VALUES, factors, leaf, polynomial);
    bundles[u64(step) * BUNDLE_VALUES + bundle_place(tile, leaf, polynomial)] = sum;
    // All have read the tile and the factors, and have stored.
    if (!planted<27>()) __syncwarp();
    if (lane == 0) {
      fetch(work + 2 * warps, stage);
      raise_flag(&flags[flag_at(0, steps, step, tile / QUARTER_TILES)], 1);
    }
    __syncwarp();
  }
}
