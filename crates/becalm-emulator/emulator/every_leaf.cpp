// The kernels of `leaves.cuh` beside each other, and those of `batch.cuh`, under the detector of `races.h`: once with all waits, then once without each of
// them. Prints the kernels with races, and those that made a mistake or did not end.
//
// Built and run by `tests/races.rs`.
#include <cstdio>
#include <vector>

#include "beside.h"

namespace {
#include "kernels.cuh"

/// The first number of `planted` in `leaves.cuh`, `streams.cuh` and `batch.cuh`; BECALM_PLANTS is the last.
constexpr int FIRST_PLANT = 16;

template <int BLOCKS>
void rotate(const char* name, const Value* table) {
  using Layout = LeavesLayout<BLOCKS>;
  // More than the ring has stages.
  constexpr u32 STEPS = Layout::STAGES + 1;
  const std::vector<Value> key(STEPS * TILES * TILE_VALUES, Value{1.0, 2.0});
  std::vector<u32> exponents(STEPS * GGSWS);
  for (u32 i = 0; i < STEPS * GGSWS; i++) exponents[i] = i * 2654435761u % (2 * N);
  std::vector<Value> bundles(STEPS * BUNDLE_VALUES);
  std::vector<u32> flags(STEPS * 4);
  std::vector<Coefficient> acc(COLUMNS * N);
  auto rotation = [&] {
    const auto kernel = BLOCKS == 16 ? becalm_rotate_leaves_16 : becalm_rotate_leaves_4;
    kernel(acc.data(), nullptr, nullptr, 0, bundles.data(), bundles.size(), flags.data(), STEPS, table);
  };
  auto stream = [&] { becalm_bundle_stream(bundles.data(), flags.data(), key.data(), exponents.data(), STEPS, table); };
  launch(name, {of(BLOCKS, Layout::BLOCK_THREADS, BLOCKS, Layout::BYTES, rotation), of(3, STREAM_THREADS, 1, STREAM_BYTES, stream)});
}

/// A batch of two blocks that rotate and two that make bundles, with a ring of eight steps.
void batch(const Value* table) {
  constexpr u32 BATCH_STEPS = 10, JOBS = 2, SLOTS = 8;
  const std::vector<Value> key(BATCH_STEPS * TILES * TILE_VALUES, Value{1.0, 2.0});
  std::vector<u64> packed(BATCH_STEPS * UNIT_JOBS * 4, 0x0001000200030004u);
  std::vector<Value> ring(SLOTS * UNIT_JOBS * BUNDLE_VALUES);
  std::vector<u32> flags(2 * BATCH_STEPS);
  std::vector<Coefficient> acc(JOBS * COLUMNS * N);
  auto all = [&] {
    becalm_rotate_batch(acc.data(), ring.data(), flags.data(), key.data(), packed.data(), UNIT_JOBS, BATCH_STEPS, JOBS, SLOTS, table);
  };
  launch("batch", {of(JOBS + 2, BatchLayout::BLOCK_THREADS, 1, BatchLayout::BYTES, all)});
}

void all() {
  const std::vector<Value> table(TWIST_AT + M, Value{1.0, 0.0});
  rotate<16>("leaves_16", table.data());
  rotate<4>("leaves_4", table.data());
  batch(table.data());
}

}  // namespace

int main() { races::check(FIRST_PLANT, BECALM_PLANTS, all); }
