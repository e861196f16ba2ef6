// Every kernel of CKKS, for the detector of `races.h`. Data do not matter, only who reads and writes what, and when.
//
// Built and run by `tests/races.rs`. Runs once with all barriers, then once without each of them, and prints for each how many
// races there were and in which kernels.
#include <cstdio>
#include <vector>

#include "emulator.h"
#include "races.h"

namespace {
#include "rns/kernels.cuh"

template <class F>
void launch(const char* kernel, dim3 grid, unsigned block, size_t shared, F thread) {
  const emulator::Launch shape{grid, dim3(block), 1, shared, 0};
  const races::Visit visit(kernel);
  if (visit.wanted) emulator::run(shape, [](void* f) { (*static_cast<F*>(f))(); }, &thread);
}

/// Two limbs of two polynomials, from one place to another and in place.
void transforms(const std::vector<Word>& words) {
  std::vector<double> a(4 * N), b(4 * N);
  const std::vector<Job> jobs{{0, 0, 1, 1, 1.0, 0}, {0, 1, 0, 0, 1.0, 0}};
  const u64 stride = 2 * N;
  const dim3 grid(N / TILE, unsigned(jobs.size()), 2);
  const size_t rows = 8 * 16 * PADDED;
  double *const to = b.data(), *const from = a.data();
  const Job* const list = jobs.data();
  const Word* const all = words.data();
  for (u32 kind = 0; kind < 3; kind++) {
    launch("ntt_rows", grid, TRANSFORM_THREADS, rows, [&] { becalm_ntt_rows(to, from, list, all, stride, stride, kind); });
  }
  launch("intt_rows", grid, TRANSFORM_THREADS, rows, [&] { becalm_intt_rows(from, to, list, all, stride, stride); });
  const std::vector<Job> here{{0, 0, 0, 0, 1.0, 0}, {0, 1, 1, 1, 1.0, 0}};
  launch("intt_rows", grid, TRANSFORM_THREADS, rows, [&] { becalm_intt_rows(to, to, here.data(), all, stride, stride); });
}

/// Two conversions, one of more targets than a part has.
void conversions(const std::vector<Word>& words) {
  const std::vector<double> from(3 * N), constants(2 + 3 * 9 + 1 + 2 * 2);
  std::vector<double> to(11 * N);
  const std::vector<Conversion> list{{2, 0, 9, 0, 14, 0, 0}, {1, 2, 2, 9, 1, 2 + 3 * 9, 0}};
  const std::vector<Job> jobs{{0, 0, 0, 0, 1.0, 0}, {0, 1, 1, 1, 1.0, 0}, {0, 2, 2, 2, 1.0, 0}};
  std::vector<Target> targets;
  for (u32 i = 0; i < 11; i++) targets.push_back({0, i});
  const dim3 grid(N / 256, 2, 2);
  const size_t shared = sizeof(double) * (HELD * 32 * 3 + (2 + 3 + TWIDDLES) * 6);
  launch("convert", grid, CONVERT_THREADS, shared, [&] {
    becalm_convert(to.data(), from.data(), jobs.data(), list.data(), constants.data(), targets.data(), words.data(), 0, 0, 2);
  });
}

/// Keys times a digit of which one limb is its own.
void keys(const std::vector<Word>& words) {
  const std::vector<double> from(2 * N), key(2 * N), diagonal(2 * N);
  std::vector<double> out(8 * 2 * 2 * N);
  const std::vector<KeyLimb> limbs{{0, 0, 0, 0, 1.0, 0}, {0, 1, 1, 0, 1.0, 0}};
  const double *const x = from.data(), *const k = key.data();
  launch("key_product", dim3(N / 512, 2), 256, 0, [&] {
    becalm_key_product(out.data(), out.data(), x, x, 1, x, x, limbs.data(), words.data(), k, k, 2, 1, 2, 2, 5, 1, 0, 0, 0);
  });
  launch("key_product, 2 polynomials", dim3(2 * N / 512, 2), 256, 0, [&] {
    becalm_key_product(out.data(), out.data(), x, x, 1, x, x, limbs.data(), words.data(), k, k, 2, 1, 2, 2, 5, 2, 0, 0, 0);
  });
  const std::vector<Turned> inputs(2, Turned{x, nullptr, x, x, 2, 0, 0});
  // More stages than the ring has.
  std::vector<Baby> babies(5, Baby{k, k, 5, 2, 0});
  babies[0] = {nullptr, nullptr, 1, 2, 0};
  const u32 steps = u32(babies.size());
  std::vector<Diagonal> diagonals;
  for (u32 i = 0; i < steps * 2 * 8; i++) diagonals.push_back({i % 3 ? diagonal.data() : nullptr, i % 3 == 1, 0});
  const dim3 grid(N / BABY_VALUES, 2);
  launch("key_baby", grid, BABY_THREADS, sizeof(BabyRing), [&] {
    becalm_key_baby(out.data(), inputs.data(), babies.data(), diagonals.data(), limbs.data(), words.data(), steps, 2, 3, 1, 8, 1, 2, 1, 1);
  });
  launch("key_baby_8", grid, BABY_THREADS, sizeof(BabyRing), [&] {
    becalm_key_baby_8(out.data(), inputs.data(), babies.data(), diagonals.data(), limbs.data(), words.data(), steps, 2, 8, 0, 8, 1, 2, 0, 1);
  });
  // Two lanes.
  launch("key_baby", dim3(2 * N / BABY_VALUES, 2), BABY_THREADS, sizeof(BabyRing), [&] {
    becalm_key_baby(out.data(), inputs.data(), babies.data(), diagonals.data(), limbs.data(), words.data(), steps, 1, 4, 0, 4, 1, 2, 1, 2);
  });
}

/// A sum in place.
void sums(const std::vector<Word>& words) {
  std::vector<double> a(2 * N), b(N), c(N);
  const double constant = 3.0;
  const std::vector<Term> terms{{a.data(), b.data(), &constant, nullptr, 1, 0, 0}};
  const std::vector<Pair> pairs{{a.data(), b.data(), b.data(), a.data() + N, 2.0, 0}};
  launch("sum", dim3(N / 512, 1), 256, 0, [&] {
    becalm_sum(a.data(), b.data(), c.data(), terms.data(), 1, pairs.data(), 1, nullptr, words.data(), 0, 0);
  });
}

void all() {
  const std::vector<double2> twiddles(N / 16);
  const double* const table = &twiddles.data()->x;
  const std::vector<Word> words{{1048573.0, 1 / 1048573.0, 0, 0, table, table}};
  transforms(words);
  conversions(words);
  keys(words);
  sums(words);
}

}  // namespace

int main() { races::check(1, BECALM_PLANTS, all); }
