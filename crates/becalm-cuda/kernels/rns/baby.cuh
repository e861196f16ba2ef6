// The baby steps of a linear map with their diagonals: rotated values are never in memory. Each word of a key is read once, for all
// inputs and all giant steps.
//
// A block makes 128 values of a limb, one a thread. What they read comes through a ring of stages in shared memory, up to four rows of
// 128 values each. The stages of a baby step: the inputs' own values, for each digit the key and the inputs' rows, for each input its
// diagonals. An aligned block of an image comes from one of the polynomial: rows are copied as they are, and turned as they are read.
//
// Four warps multiply, and one more, the feeder, copies: its lanes find the rows of eight stages at once, and each has its own copied
// whole by one instruction when the stage is free. No barrier of a block is in the loop: a stage is full when its bytes are there, and
// empty when each warp has said so.
//
// Numbers, for two inputs, four digits and four giants: a rotated baby step has 7 stages, of 18 rows of 1 KB and 8 of diagonals, an
// eighth as long if they are tiled: 19 to 26 KB. A multiprocessor has four blocks, as many as 96 registers allow, so 48 stages, or
// 130 KB, are on their way; 5 TB/s of the second-level cache, which gives the inputs' rows again for each step, are 22 bytes a clock and
// need 45 KB at 2000 clocks of latency. In the 3500 clocks in which 5 TB/s bring the rows of four steps a scheduler issues four times
// some 430 instructions of multiplying warps, 172 of them in doubles, each of which keeps its pipe for two clocks, and 700 of a feeder.
//
// Bounds: a value is a sum of residues up to p times others, settled after `lazy_terms`; it is then at most p/2 + 1, so the sums of
// giant steps take twice as many products but one before they are settled.
#pragma once
#include "rns/key.cuh"

/// A baby step and its key, as `becalm_cuda::rns::Baby` lays it out.
struct Baby {
  /// Null: no rotation, the value is the input's own.
  const double *bodies, *masks;
  u32 power, stored;
  u64 unused;
};
/// A diagonal of a linear map. Tiled: an eighth of the values, those of a tile of 64 repeat every eight.
struct Diagonal {
  /// Null: no product.
  const double* at;
  u32 tiled, unused;
};

/// The arguments.
struct BabySteps {
  double* out;
  const Turned* inputs;
  const Baby* babies;
  const Diagonal* diagonals;
  u32 babies_count, giants, giant0, giants_of_all, digits, count, kept;
  /// The 128 values of a limb that the block makes, and doubles from one giant step to the next in `out`.
  u32 tile;
  u64 giant_stride;
};

constexpr u32 BABY_VALUES = 128, BABY_WARPS = BABY_VALUES / 32, BABY_THREADS = BABY_VALUES + 32, BABY_ROWS = 4, BABY_STAGES = 12;
/// Stages of which the feeder finds the rows at once.
constexpr u32 BABY_PARTS = 32 / BABY_ROWS;
/// Whether rows come by bulk copies; else by copies of 16 bytes, of so many stages at once.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr bool BABY_BULK = false;
#else
constexpr bool BABY_BULK = true;
#endif
constexpr u32 BABY_AHEAD = BABY_STAGES - 2;
/// The barrier of a block behind which its ring can be read.
constexpr u32 BABY_READY = 1;
static_assert(BABY_STAGES >= BABY_PARTS, "the first rows that are found have room");

struct BabyStage {
  double rows[BABY_ROWS][BABY_VALUES];
};
/// A row of a stage: null for zeros, which are not copied.
struct BabyRow {
  const double* at;
  u32 bytes, unused;
};
/// What a stage holds: bit r that row r is there, bit 4 + r that it is tiled; and the power of X of the step, 0 for no rotation.
struct BabyNote {
  u32 rows, power;
};
/// Shared memory of a block.
struct BabyRing {
  BabyStage stages[BABY_STAGES];
  /// The feeder's, where copies are not bulk copies.
  BabyRow rows[32];
  BabyNote notes[BABY_STAGES];
  /// Barriers of each stage: its rows are there, and all warps have read them.
  u64 full[BABY_STAGES], empty[BABY_STAGES];
  Word word;
  double factor, unused;
};

/// The stages in turn, and the parity of a phase, which changes from round to round.
struct BabyPlace {
  u32 stage, parity;

  __device__ __forceinline__ void next() {
    if (++stage == BABY_STAGES) stage = 0, parity ^= 1;
  }
};

/// The last warp of a block, which fills the ring.
struct Feeder {
  const BabySteps& a;
  const KeyLimb& limb;
  u32 inputs, groups;

  /// Row r of a part of a baby step.
  __device__ __forceinline__ BabyRow row(u32 baby, const Baby& step, u32 digits, u32 part, u32 r) const {
    constexpr u32 WHOLE_ROW = 8 * BABY_VALUES, TILED_ROW = BABY_VALUES;
    const u32 i = blockIdx.y, x = a.tile * BABY_VALUES;
    const u32 from = step.bodies ? source_of(x, step.power) & ~(BABY_VALUES - 1) : x;
    const BabyRow none = {nullptr, 0, 0};
    if (part == 0) {
      if (r >= 2 * inputs) return none;
      const Turned& input = a.inputs[r / 2];
      // A rotation leaves nothing of the mask but its digits.
      const double* const own = !(r & 1) ? input.own0 : step.bodies ? nullptr : input.own1;
      return own && i < input.owned ? BabyRow{own + u64(i) * N + from, WHOLE_ROW, 0} : none;
    }
    if (part <= digits) {
      const u32 j = part - 1, place = j * step.stored + key_place(limb, i, step.stored, a.count);
      if (r < 2) return {(r ? step.masks : step.bodies) + u64(place) * N + x, WHOLE_ROW, 0};
      if (r >= 2 + inputs) return none;
      const Turned& input = a.inputs[r - 2];
      return {row_of(input.lifted, input.values, limb.digit, j, i, a.count) + from, WHOLE_ROW, 0};
    }
    const u32 q = part - digits - 1, g = q % groups * BABY_ROWS + r;
    if (q >= inputs * groups || g >= a.giants) return none;
    const Diagonal& diagonal = a.diagonals[(baby * inputs + q / groups) * a.giants_of_all + a.giant0 + g];
    const double* const at = diagonal.at;
    if (!at) return none;
    return diagonal.tiled ? BabyRow{at + u64(i) * (N / 8) + x / 8, TILED_ROW, 0} : BabyRow{at + u64(i) * N + x, WHOLE_ROW, 0};
  }

  /// Begins the copies of a part by all lanes.
  __device__ __forceinline__ void copy(const BabyRow* rows, BabyStage& to, u32 lane) const {
    LOOP
    for (u32 r = 0; r < BABY_ROWS; r++) {
      const BabyRow row = rows[r];
      LOOP
      for (u32 at = 16 * lane; at < row.bytes; at += 16 * 32) {
        copy_async(reinterpret_cast<double2*>(&to.rows[r][at / 8]), reinterpret_cast<const double2*>(row.at + at / 8));
      }
    }
    commit_copies();
  }

  __device__ __forceinline__ void run(BabyRing& ring) const {
    const u32 lane = threadIdx.x % 32, r = lane % BABY_ROWS;
    if (lane == 0) {
      LOOP
      for (u32 s = 0; s < BABY_STAGES; s++) mbarrier_init(&ring.full[s], 1), mbarrier_init(&ring.empty[s], BABY_WARPS);
      // Bulk copies know the barriers too.
      shared_async_fence();
    }
    __syncwarp();
    bool ready = false;
    // An empty ring counts as read in the round before.
    BabyPlace place = {0, 1}, told = {0, 0};
    u32 untold = 0;
    // All lanes have waited for their copies to the stage that is told of.
    auto tell = [&] {
      __syncwarp();
      if (lane == 0) mbarrier_arrive(&ring.full[told.stage]);
      told.next(), untold--;
    };
    LOOP
    for (u32 b = 0; b < a.babies_count; b++) {
      const Baby step = a.babies[b];
      const u32 digits = step.bodies ? a.digits : 0, parts = 1 + digits + inputs * groups;
      LOOP
      for (u32 first = 0; first < parts; first += BABY_PARTS) {
        const BabyRow from = row(b, step, digits, first + lane / BABY_ROWS, r);
        // The bytes of a part, and above them the rows of its note.
        u32 all = from.bytes;
        if (from.at) all |= 1u << (16 + r);
        if (from.bytes == BABY_VALUES) all |= 1u << (20 + r);
        all += __shfl_xor_sync(~0u, all, 1);
        all += __shfl_xor_sync(~0u, all, 2);
        if (!BABY_BULK) {
          ring.rows[lane] = from;
          __syncwarp();
        }
        const u32 here = parts - first < BABY_PARTS ? parts - first : BABY_PARTS;
        LOOP
        for (u32 p = 0; p < here; p++, place.next()) {
          const u32 s = place.stage;
          if (!planted<8>()) mbarrier_wait(&ring.empty[s], place.parity);
          if (BABY_BULK) {
            if (lane / BABY_ROWS == p && from.at) bulk_copy(ring.stages[s].rows[r], from.at, from.bytes, &ring.full[s]);
            if (planted<8>()) mbarrier_wait(&ring.empty[s], place.parity);
            if (lane == BABY_ROWS * p) {
              ring.notes[s] = {all >> 16, step.bodies ? step.power : 0};
              mbarrier_expect(&ring.full[s], all & 0xFFFF);
            }
          } else {
            if (lane == BABY_ROWS * p) ring.notes[s] = {all >> 16, step.bodies ? step.power : 0};
            copy(ring.rows + BABY_ROWS * p, ring.stages[s], lane);
            if (++untold > BABY_AHEAD) {
              await_copies_but<BABY_AHEAD>();
              tell();
            }
          }
        }
        if (!BABY_BULK) __syncwarp();
        // The first copies, for which the ring has room, are under way before anybody else comes.
        if (!ready) named_barrier(BABY_READY, BABY_THREADS);
        ready = true;
      }
    }
    if (!ready) named_barrier(BABY_READY, BABY_THREADS);
    if (BABY_BULK) return;
    await_copies();
    LOOP
    while (untold > 0) tell();
  }
};

/// One of the warps that multiply, which read the ring.
struct Eater {
  BabyRing& ring;
  BabyPlace place;

  /// The stage when it is full; `always`: none is left out, as the number of stages hangs on it.
  __device__ __forceinline__ const BabyStage& await(bool always = false) const {
    if (always || !planted<6>()) mbarrier_wait(&ring.full[place.stage], place.parity);
    return ring.stages[place.stage];
  }
  __device__ __forceinline__ BabyNote note() const { return ring.notes[place.stage]; }
  /// All lanes have what they need of the stage.
  __device__ __forceinline__ void release() {
    if (planted<6>()) mbarrier_wait(&ring.full[place.stage], place.parity);
    if (!planted<7>()) __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(&ring.empty[place.stage]);
    place.next();
  }
};

/// The sums of both polynomials.
struct PairSum {
  Lazy sum[2];

  __device__ __forceinline__ void add(double a0, double a1, double b) { sum[0].add(a0, b), sum[1].add(a1, b); }
  __device__ __forceinline__ void settle(const Sums& sums) { sums.settle(sum[0]), sums.settle(sum[1]); }
};

/// Makes a value of limb blockIdx.y for each thread, M inputs and up to G giant steps. A baby step costs 16 bytes of keys a digit and 8 or
/// 1 a diagonal, and 8 operations for each input and digit and for each diagonal, 24 more an input.
template <int M, int G>
__device__ __forceinline__ void key_baby(const BabySteps& a, const KeyLimb& limb, const Word& of_limb) {
  constexpr int GROUPS = (G + BABY_ROWS - 1) / BABY_ROWS, ROWS = G < int(BABY_ROWS) ? G : BABY_ROWS;
  BabyRing& ring = *shared_memory<BabyRing>();
  const u32 t = threadIdx.x;
  if (t >= BABY_VALUES) return Feeder{a, limb, M, GROUPS}.run(ring);
  if (t == 0) ring.word = of_limb, ring.factor = limb.factor;
  named_barrier(BABY_READY, BABY_THREADS);
  const u32 x = a.tile * BABY_VALUES + t, tile = t / 64 * 8 + t % 8;
  const Word& word = ring.word;
  const Sums sums{word};
  const u32 terms = lazy_terms(word.p), most = 2 * terms - 1;
  PairSum all[G], value[M];
  UNROLL for (int g = 0; g < G; g++) all[g].sum[0] = all[g].sum[1] = sums.begin(0.0);
  u32 room = most;
  Eater eater{ring, {0, 0}};
  LOOP
  for (u32 b = 0; b < a.babies_count; b++) {
    // The inputs' own values, with a factor.
    UNROLL for (int m = 0; m < M; m++) value[m].sum[0] = value[m].sum[1] = sums.begin(0.0);
    const BabyStage& own = eater.await(true);
    const BabyNote note = eater.note();
    const u32 source = note.power ? source_of(x, note.power) % BABY_VALUES : t, digits = note.power ? a.digits : 0;
    const double factor = ring.factor;
    UNROLL for (int r = 0; r < 2 * M; r++) {
      if (note.rows >> r & 1) value[r / 2].sum[r % 2].add(own.rows[r][source], factor);
    }
    eater.release();
    // The key with the inputs' rows, settled between as many as a sum takes.
    LOOP
    for (u32 j = 0, fit = terms - 1; j < digits; fit = terms) {
      if (j > 0) {
        UNROLL for (int m = 0; m < M; m++) value[m].settle(sums);
      }
      const u32 end = digits - j < fit ? digits : j + fit;
      auto digit = [&] {
        const BabyStage& in = eater.await();
        const double key0 = in.rows[0][t], key1 = in.rows[1][t];
        double row[M];
        UNROLL for (int m = 0; m < M; m++) row[m] = in.rows[2 + m][source];
        eater.release();
        UNROLL for (int m = 0; m < M; m++) value[m].add(key0, key1, row[m]);
      };
      // Eight giants leave no registers for two digits at a time.
      if (G <= 4) {
        LOOP_2
        for (; j < end; j++) digit();
      } else {
        LOOP
        for (; j < end; j++) digit();
      }
    }
    double turned[M][2];
    UNROLL for (int m = 0; m < M; m++) turned[m][0] = sums.end(value[m].sum[0]), turned[m][1] = sums.end(value[m].sum[1]);
    // The diagonals.
    if (room < M) {
      UNROLL for (int g = 0; g < G; g++) all[g].settle(sums);
      room = most;
    }
    room -= M;
    UNROLL for (int m = 0; m < M; m++) {
      UNROLL for (int group = 0; group < GROUPS; group++) {
        const BabyStage& in = eater.await();
        const u32 rows = eater.note().rows;
        const double *const whole = in.rows[0] + t, *const tiled = in.rows[0] + tile;
        double by[ROWS];
        UNROLL for (int r = 0; r < ROWS; r++) {
          const double* const at = rows >> (4 + r) & 1 ? tiled : whole;
          by[r] = rows >> r & 1 ? at[r * BABY_VALUES] : 0.0;
        }
        eater.release();
        if (G > 4 && !rows) continue;
        UNROLL for (int r = 0; r < ROWS; r++) all[group * ROWS + r].add(turned[m][0], turned[m][1], by[r]);
      }
    }
  }
  UNROLL for (u32 g = 0; g < G; g++) {
    if (g >= a.giants) continue;
    UNROLL for (int k = 0; k < 2; k++) {
      double* const out = a.out + g * a.giant_stride + (u64(k * a.count + blockIdx.y) * N + x);
      const double sum = sums.end(all[g].sum[k]);
      *out = a.kept ? Modulo(word).reduce(sum + *out) : sum;
    }
  }
}
