// The kernels of `trials.cuh` under the detector of `races.h`: once with all waits, then once without each of them. Prints the
// kernels with races, and those that made a mistake or did not end.
//
// Built and run by `tests/trials_races.rs`.
#include <cstdio>
#include <vector>

#include "beside.h"

namespace {
#include "trials.cuh"

void trials() {
  const u32 count = 7;
  const std::vector<double2> in(2 * count * SLOT, double2{1.0, 2.0});
  std::vector<double> out(2 * SLOT);
  auto ring = [&] { becalm_try_ring(out.data(), in.data(), count); };
  launch("ring", {of(1, 64, 1, STAGES * (STAGE * 16 + 16), ring)});
  auto all_to_all = [&] { becalm_try_all_to_all(out.data(), count); };
  launch("all_to_all", {of(16, 32, 16, 16 * 16 + 8, all_to_all)});
  auto exchange = [&] { becalm_try_exchange(out.data(), count); };
  launch("exchange", {of(16, 32, 16, 2 * 16 * 16 + 16, exchange)});
  std::vector<double2> slots(2 * SLOTS * SLOT);
  std::vector<u32> flags(4), steps(4);
  auto produce = [&] { becalm_try_produce(slots.data(), flags.data(), in.data(), count); };
  auto consume = [&] { becalm_try_consume(out.data(), slots.data(), flags.data(), count); };
  launch("channel", {of(2, SLOT, 1, SLOT * 16 + 8, consume), of(2, SLOT, 1, 0, produce)});
  std::vector<u64> lengths(4);
  auto chain = [&] { becalm_try_chain(lengths.data(), steps.data(), 3); };
  launch("chain", {of(4, 1, 1, 0, chain)});
}

}  // namespace

int main() { races::check(1, BECALM_PLANTS, trials); }
