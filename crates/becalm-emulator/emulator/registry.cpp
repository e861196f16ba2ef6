// The functions that Rust calls: launches of kernels, by their names.
#include <deque>

#include "emulator.h"

using emulator::Body;
using Kernels = Body*(const char* name, void (**kernel)());
struct Entry {
  const char* name;
  Kernels* find;
};
#include "registry.inc"

namespace {

/// Launches that run at once, and what their threads call.
struct Calls {
  emulator::Pool* pool = emulator::make_pool();
  std::deque<emulator::Call> calls;
};

/// A launch as Rust has it.
struct Request {
  const char *kernels, *kernel;
  unsigned grid[3], block, cluster;
  size_t shared;
  uint64_t seed;
  void** arguments;
  uint64_t ticket;
};

}  // namespace

extern "C" {

Calls* becalm_emulator_new() { return new Calls; }

void becalm_emulator_drop(Calls* calls) {
  emulator::end_pool(calls->pool);
  delete calls;
}

/// Begins a launch, whose arguments stay until it has ended. 0: begun; 1: no such kernels; 2: none of that name among them.
int becalm_emulator_begin(Calls* calls, const Request* request) {
  for (const Entry& entry : ENTRIES) {
    if (strcmp(entry.name, request->kernels) != 0) continue;
    emulator::Call call{nullptr, request->arguments};
    Body* const body = entry.find(request->kernel, &call.kernel);
    if (!body) return 2;
    calls->calls.push_back(call);
    const unsigned* grid = request->grid;
    const emulator::Launch shape{dim3(grid[0], grid[1], grid[2]), dim3(request->block), request->cluster, request->shared,
                                 request->seed};
    emulator::add(*calls->pool, {shape, body, &calls->calls.back(), request->ticket});
    return 0;
  }
  return 1;
}

/// As `emulator::Outcome`: 0: nothing is left; 1: a launch has ended, its ticket; 2: all threads wait; 3: a mistake of a kernel.
int becalm_emulator_go(Calls* calls, uint64_t* ticket) {
  const emulator::Outcome outcome = emulator::go(*calls->pool, ticket);
  if (outcome == emulator::Outcome::DONE) calls->calls.clear();
  return int(outcome);
}

const char* becalm_emulator_why(const Calls* calls) { return emulator::why(*calls->pool); }
}
