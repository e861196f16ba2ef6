// Kernels beside each other under the detector of `races.h`, for the programs that check races.
#pragma once
#include <cstdio>
#include <vector>

#include "emulator.h"
#include "races.h"

/// A launch of a function, which must live until the launch has ended.
template <class F>
emulator::Work of(unsigned grid, unsigned block, unsigned cluster, size_t shared, F& thread) {
  return {{dim3(grid), dim3(block), cluster, shared, 0}, [](void* f) { (*static_cast<F*>(f))(); }, &thread, 0};
}

/// Runs launches at once, to their end. Prints the name if there were races, and with `!` if a kernel made a mistake.
inline void launch(const char* name, const std::vector<emulator::Work>& launches) {
  const races::Visit visit(name);
  if (!visit.wanted) return;
  emulator::Pool* pool = emulator::make_pool();
  for (const emulator::Work& work : launches) emulator::add(*pool, work);
  emulator::Outcome outcome;
  uint64_t ticket;
  do {
    outcome = emulator::go(*pool, &ticket);
  } while (outcome == emulator::Outcome::ENDED);
  if (outcome != emulator::Outcome::DONE) {
    fprintf(stderr, "%d: %s: %s\n", emulator::plant.number, name, emulator::why(*pool));
    printf(" !%s", name);
  }
  emulator::end_pool(pool);
}
