// Races: the kernels of one ring under ThreadSanitizer. Data do not matter, only who reads and writes what, and when.
//
// Built and run by `tests/races.rs`. With BECALM_PLANT the barrier of that number is left out of the kernels, and the
// sanitizer must report a race; without it, none. Prints how many bytes were written, so that nothing is left unrun.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "emulator.h"

namespace {
#include "../kernels/kernels.cuh"

template <class F>
void launch(dim3 grid, unsigned block, unsigned cluster, size_t shared, F thread) {
  const emulator::Launch shape{grid, dim3(block), cluster, shared, 0};
  emulator::run(shape, [](void* f) { (*static_cast<F*>(f))(); }, &thread);
}

std::vector<u64> words(size_t count) {
  std::vector<u64> out(count);
  u64 x = 1;
  for (u64& word : out) word = (x = x * 6364136223846793005u + 1442695040888963407u);
  return out;
}

void transforms(const double2* table) {
  const auto polynomials = words(3 * N);
  std::vector<double2> values(3 * M);
  std::vector<double> back(3 * N);
  const unsigned blocks = (3 + CONVERT_POLYNOMIALS - 1) / CONVERT_POLYNOMIALS, threads = CONVERT_POLYNOMIALS * THREADS;
  const size_t shared = CONVERT_POLYNOMIALS * M * 16;
  launch(dim3(blocks), threads, 1, shared, [&] { becalm_to_fourier(values.data(), polynomials.data(), 3, table); });
  launch(dim3(blocks), threads, 1, shared, [&] { becalm_from_fourier(back.data(), values.data(), 3, table); });
}

void switches() {
  const u32 dimension = 40 * GROUP_BITS, jobs = 3;
  const auto cts = words(jobs * (dimension + BODIES));
  std::vector<u32> exponents(jobs * (40 * GGSWS + BODIES));
  launch(dim3(jobs), MODULUS_SWITCH_THREADS, 1, 64,
         [&] { becalm_modulus_switch(exponents.data(), cts.data(), dimension, 1); });
  const KeySwitchShape shape{70, 140, 1, 0, 4, 4, 144, 64};
  const auto in = words(9 * 71), key = words(70 * 4 * 144);
  std::vector<u64> out(9 * 141);
  launch(dim3(9), 256, 1, 0, [&] { becalm_key_switch_start(out.data(), in.data(), shape); });
  launch(dim3(2, 2, 3), 128, 1, 2048, [&] { becalm_key_switch_64(out.data(), in.data(), key.data(), shape, 9); });
  // A key of half the words: read as they lie.
  KeySwitchShape half = shape;
  half.word = 32;
  launch(dim3(2, 2, 3), 128, 1, 2048,
         [&] { becalm_key_switch_32(out.data(), in.data(), reinterpret_cast<const u32*>(key.data()), half, 9); });
}

using Kernel = void(double*, const double2*, u64, const u32*, u32, u32, u32, const double2*);

void rotations(const double2* table) {
  const u32 jobs = 3, steps = 3, width = steps * GGSWS + BODIES;
  std::vector<u32> exponents(jobs * width);
  for (size_t i = 0; i < exponents.size(); i++) exponents[i] = u32(i * 2654435761u) % (2 * N);
  const auto tables = words(COLUMNS * N);
  std::vector<double> acc(jobs * COLUMNS * N);
  launch(dim3(jobs), 256, 1, 0, [&] { becalm_load_table(acc.data(), tables.data(), 0, exponents.data(), width); });
  std::vector<double2> key(steps * GGSWS * ROWS * COLUMNS * M, make_double2(0.25, -0.125)), bundles;
  u64 stride = 0;
#if BECALM_GROUP_GGSWS > 0
  stride = u64(steps) * ROWS * COLUMNS * M;
  bundles.resize(jobs * stride);
  launch(dim3(M / BUNDLE_POINTS, steps, jobs), BUNDLE_THREADS, 1, GGSWS * BUNDLE_POINTS * 16,
         [&] { becalm_bundle_one(bundles.data(), key.data(), exponents.data(), width, jobs, table); });
  launch(dim3(M / BUNDLE_POINTS, steps, (jobs + BUNDLE_JOBS - 1) / BUNDLE_JOBS), BUNDLE_THREADS, 1,
         BUNDLE_JOBS * GGSWS * BUNDLE_POINTS * 16,
         [&] { becalm_bundle_many(bundles.data(), key.data(), exponents.data(), width, jobs, table); });
  key = bundles;
#endif
  auto rotate = [&](Kernel* kernel, unsigned grid, unsigned block, unsigned cluster, size_t shared) {
    launch(dim3(grid), block, cluster, shared,
           [&] { kernel(acc.data(), key.data(), stride, exponents.data(), width, steps, jobs, table); });
  };
  rotate(becalm_rotate_cluster, jobs * COLUMNS, THREADS, COLUMNS, RotateLayout<COLUMNS, 1>::BYTES);
#if BECALM_BLOCKS >= 1
  rotate(becalm_rotate_block, jobs, ONE_THREADS, 1, RotateLayout<1, 1>::BYTES);
#endif
#if BECALM_BLOCKS >= 2
  rotate(becalm_rotate_pair, (jobs + 1) / 2, TWO_THREADS, 1, RotateLayout<1, 2>::BYTES);
#endif
  const std::vector<u32> indices{0, 1, N / 2};
  std::vector<u64> out(indices.size() * jobs * (K * N + BODIES));
  launch(dim3(jobs, indices.size()), 256, 1, 0,
         [&] { becalm_sample_extract(out.data(), acc.data(), indices.data(), jobs); });
}

void linear() {
  const auto a = words(50 * 23), constants = words(3);
  std::vector<u64> out(50 * 23);
  Terms terms{};
  terms.words[0] = terms.words[1] = a.data(), terms.factors[0] = 3, terms.factors[1] = 5, terms.count = 2;
  launch(dim3(2), 256, 1, 0, [&] { becalm_multiply_add(out.data(), terms, 7, 23, 3, out.size(), 0); });
  launch(dim3(2), 256, 1, 0, [&] { becalm_add_slots(out.data(), a.data(), constants.data(), 23, 3, out.size()); });
  launch(dim3(2), 256, 1, 0, [&] { becalm_extract_slot(out.data(), a.data(), 20, 3, 1, 50 * 21); });
}

}  // namespace

int main() {
  std::vector<double2> table(TWIST_AT + M, make_double2(0.6, 0.8));
  transforms(table.data());
  switches();
  rotations(table.data());
  linear();
  puts("every kernel ran");
}
