// Every kernel of one ring, for the detector of `races.h`. Data do not matter, only who reads and writes what, and when.
//
// Built and run by `tests/races.rs`. Runs once with all barriers, then once without each of them, and prints for each how many
// races there were and in which kernels.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "emulator.h"
#include "races.h"

namespace {
#include "kernels.cuh"

template <class F>
void launch(const char* kernel, dim3 grid, unsigned block, unsigned cluster, size_t shared, F thread) {
  const emulator::Launch shape{grid, dim3(block), cluster, shared, 0};
  const races::Visit visit(kernel);
  if (visit.wanted) emulator::run(shape, [](void* f) { (*static_cast<F*>(f))(); }, &thread);
}

std::vector<u64> words(size_t count) {
  std::vector<u64> out(count);
  u64 x = 1;
  for (u64& word : out) word = (x = x * 6364136223846793005u + 1442695040888963407u);
  return out;
}

/// The beginnings of `count` equal parts.
template <class T, class V>
std::vector<T*> rows(V& all, size_t count) {
  std::vector<T*> out;
  for (size_t i = 0; i < count; i++) out.push_back(all.data() + i * (all.size() / count));
  return out;
}

void transforms(const Value* table) {
  const auto polynomials = words(3 * N);
  std::vector<Value> values(3 * M);
  std::vector<Coefficient> back(3 * N);
  const unsigned blocks = (3 + CONVERT_POLYNOMIALS - 1) / CONVERT_POLYNOMIALS, threads = CONVERT_POLYNOMIALS * THREADS;
  const size_t shared = CONVERT_POLYNOMIALS * M * sizeof(Value);
  launch("to_fourier", dim3(blocks), threads, 1, shared, [&] { becalm_to_fourier(values.data(), polynomials.data(), 3, table); });
  launch("from_fourier", dim3(blocks), threads, 1, shared, [&] { becalm_from_fourier(back.data(), values.data(), 3, table); });
}

void switches() {
  const u32 dimension = 40 * GROUP_BITS, jobs = 2;
  const auto cts = words(jobs * (dimension + BODIES));
  std::vector<u32> exponents(jobs * (40 * GGSWS + BODIES));
  const auto inputs = rows<const u64>(cts, jobs);
  launch("modulus_switch", dim3(jobs), MODULUS_SWITCH_THREADS, 1, 128,
         [&] { becalm_modulus_switch(exponents.data(), inputs.data(), dimension, 1, nullptr, 0, nullptr, 0); });
  // Three steps, three tiles of columns, three tiles of ciphertexts, two slices: warps of two groups, or of one of half the planes.
  const KeySwitchShape shape{36, 20, 1, 0, 4, 2, 1, 64};
  const u32 many = 35, tiles = 3;
  const auto in = words(many * 37);
  std::vector<uint4> digits(tiles * 3 * 32), key(3 * 3 * 4 * 32, uint4{1, 2, 3, 4});
  std::vector<u64> out(many * 21);
  const auto from = rows<const u64>(in, many);
  const auto to = rows<u64>(out, many);
  launch("key_switch_start", dim3(tiles, 2), 256, 1, 0,
         [&] { becalm_key_switch_start(to.data(), from.data(), digits.data(), shape, many); });
  launch("key_switch_64", dim3(3), 128, 1, 0,
         [&] { becalm_key_switch_64(to.data(), digits.data(), key.data(), shape, many, 2); });
  KeySwitchShape half = shape;
  half.word = 32;
  launch("key_switch_32", dim3(2), 128, 1, 0,
         [&] { becalm_key_switch_32(to.data(), digits.data(), key.data(), half, many, 2); });
}

using Kernel = void(Coefficient*, const Value*, u64, const u32*, u32, u32, u32, const Value*);

void rotations(const Value* table) {
  const u32 jobs = 2, steps = 2, width = steps * GGSWS + BODIES;
  std::vector<u32> exponents(jobs * width);
  for (size_t i = 0; i < exponents.size(); i++) exponents[i] = u32(i * 2654435761u) % (2 * N);
  const auto polynomials = words(COLUMNS * N);
  std::vector<const u64*> tables(jobs * COLUMNS);
  for (size_t i = K; i < tables.size(); i++) tables[i] = polynomials.data() + i % COLUMNS * N;
  // Behind the accumulators, two mailboxes a column.
  std::vector<Coefficient> acc(jobs * COLUMNS * (N + 2 * LEVEL * M * sizeof(Value) / sizeof(Coefficient)));
  launch("load_table", dim3(jobs), 256, 1, 0,
         [&] { becalm_load_table(acc.data(), tables.data(), exponents.data(), width); });
  std::vector<Value> key(steps * GGSWS * ROWS * COLUMNS * M, Value{}), bundles;
  u64 stride = 0;
#if BECALM_GROUP_GGSWS > 0
  stride = u64(steps) * ROWS * COLUMNS * M;
  bundles.resize(jobs * stride);
  // The kernels of bundles do not know how large a column is: those of smaller rings are enough.
  if (!RotateLayout<COLUMNS, 1>::FAR) {
    launch("bundle_one", dim3(M / BUNDLE_POINTS, steps, jobs), BUNDLE_THREADS, 1, GGSWS * BUNDLE_POINTS * sizeof(Value),
           [&] { becalm_bundle_one(bundles.data(), key.data(), exponents.data(), width, jobs, table); });
    launch("bundle_many", dim3(M / BUNDLE_POINTS, steps, (jobs + BUNDLE_JOBS - 1) / BUNDLE_JOBS), BUNDLE_THREADS, 1,
           BUNDLE_JOBS * GGSWS * BUNDLE_POINTS * sizeof(Value),
           [&] { becalm_bundle_many(bundles.data(), key.data(), exponents.data(), width, jobs, table); });
#if BECALM_ARITHMETIC == 0
    // Three times eight jobs use the first box of the results again.
    const u32 many = 20;
    const std::vector<u32> turns(many * width, 3);
    std::vector<Value> out_of_tensor(many * stride);
    launch("bundle_tensor", dim3(M / BUNDLE_POINTS, steps * TENSOR_TILES, 1), TENSOR_THREADS, 1, TENSOR_BYTES,
           [&] { becalm_bundle_tensor(out_of_tensor.data(), key.data(), turns.data(), width, many, table); });
#endif
  }
  key = bundles;
#endif
  auto rotate = [&](const char* name, Kernel* kernel, unsigned grid, unsigned block, unsigned cluster, size_t shared) {
    launch(name, dim3(grid), block, cluster, shared,
           [&] { kernel(acc.data(), key.data(), stride, exponents.data(), width, steps, jobs, table); });
  };
  rotate("rotate_cluster", becalm_rotate_cluster, jobs * COLUMNS, THREADS, COLUMNS, RotateLayout<COLUMNS, 1>::BYTES);
#if BECALM_BLOCKS >= 1
  rotate("rotate_block", becalm_rotate_block, jobs, ONE_THREADS, 1, RotateLayout<1, 1>::BYTES);
#endif
#if BECALM_BLOCKS >= 2
  rotate("rotate_pair", becalm_rotate_pair, (jobs + 1) / 2, TWO_THREADS, 1, RotateLayout<1, 2>::BYTES);
#endif
  std::vector<u64> out(3 * jobs * (K * N + BODIES));
  std::vector<Extraction> list;
  for (u32 i = 0; i < 3 * jobs; i++) list.push_back({out.data() + i * (K * N + BODIES), i / 3, i % 3 * (N / 2 - 1)});
  launch("sample_extract", dim3(unsigned(list.size())), 256, 1, 0,
         [&] { becalm_sample_extract(list.data(), acc.data()); });
}

void linear() {
  const auto a = words(50 * 23), constants = words(3);
  std::vector<u64> sum(50 * 23), slot(50 * 21);
  const std::vector<LinearTerm> terms{{a.data(), 3}, {a.data(), 5}, {a.data(), 1}};
  const std::vector<LinearOp> ops{{sum.data(), constants.data(), 0, 2, 50, 23, 3, 23, 23, 0},
                                  {slot.data(), nullptr, 2, 1, 50, 21, 1, 21, 23, 1}};
  launch("linear", dim3(2, 2), 256, 1, 0, [&] { becalm_linear(ops.data(), terms.data()); });
}

#ifdef BECALM_MICRO
void micro() {
  std::vector<u64> out(4);
  std::vector<double> sums(4 * 64);
  const std::vector<double2> data(512);
  std::vector<u32> last(4);
  for (u32 kind = 0; kind < 4; kind++) {
    launch("micro_fp64", dim3(2), 64, 1, 0, [&] { becalm_micro_fp64(out.data(), sums.data(), 2, kind); });
  }
  launch("micro_read", dim3(4), 64, 1, 0, [&] { becalm_micro_read(out.data(), sums.data(), data.data(), 512, 2); });
  launch("micro_barrier", dim3(4), 64, 4, 0, [&] { becalm_micro_barrier(out.data(), 3); });
  launch("micro_remote", dim3(4), 64, 2, CHAIN * 4, [&] { becalm_micro_remote(out.data(), last.data(), 9); });
}
#endif

void all() {
  const std::vector<Value> table(TWIST_AT + M, Value{});
  transforms(table.data());
  switches();
  rotations(table.data());
  linear();
#ifdef BECALM_MICRO
  micro();
#endif
}

}  // namespace

int main() { races::check(1, BECALM_PLANTS, all); }
