// The one function that Rust calls: a kernel of a ring, by their names.
#include "emulator.h"

using Ring = bool(const char* name, const emulator::Launch* launch, void** arguments);
struct Entry {
  const char* name;
  Ring* ring;
};
#include "registry.inc"

/// 0: done; 1: no such ring; 2: no such kernel in it. `grid`: 3 numbers.
extern "C" int becalm_emulator_run(const char* ring, const char* kernel, const unsigned* grid, unsigned block, unsigned cluster,
                                   size_t shared, uint64_t seed, void** arguments) {
  for (const Entry& entry : ENTRIES) {
    if (strcmp(entry.name, ring) != 0) continue;
    const emulator::Launch launch{dim3(grid[0], grid[1], grid[2]), dim3(block), cluster, shared, seed};
    return entry.ring(kernel, &launch, arguments) ? 0 : 2;
  }
  return 1;
}
