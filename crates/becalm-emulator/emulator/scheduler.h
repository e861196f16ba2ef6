// The state of the scheduler, for `emulator.cpp` and `asynchronous.cpp` alone.
#pragma once
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "emulator.h"
#if defined(BECALM_PLANTS)
#include "races.h"
#define RACES(call) races::call
#else
#define RACES(call)
#endif

namespace emulator {

/// A store or a copy that has not landed.
struct Landing {
  unsigned char* to;
  /// Where a copy reads, when it lands; else `value` is stored.
  const void* from;
  double2 value;
  unsigned bytes;
  /// The phase of its mbarrier when it was issued.
  unsigned phase;
};

/// A barrier in shared memory. The word there holds its number in its cluster.
struct Mbarrier {
  const void* at;
  const Block* block;
  unsigned arrivals, missing, phase = 0;
  /// Bytes that are expected and have not landed; below 0: that have landed and are not expected yet.
  int64_t bytes = 0;
  std::vector<Landing> under_way;
  /// Its number in the race check.
  unsigned gate = 0;
};

/// A launch, its first block that has not begun, and clusters that have not ended.
struct Running {
  Work work;
  unsigned next = 0, blocks = 0, clusters = 0;
  unsigned race = 0;
};

struct Cluster {
  Running* launch;
  std::vector<Block> blocks;
  Barrier together;
  std::vector<Fiber> fibers;
  std::vector<Copy> copying;
  std::deque<Mbarrier> mbarriers;
  size_t alive, under_way = 0;
};

struct Pool {
  std::vector<std::unique_ptr<Running>> launches;
  std::vector<std::unique_ptr<Cluster>> clusters;
  /// Fibers in the order in which they take turns.
  std::vector<Fiber*> order;
  /// Stacks and shared memory that nobody has.
  std::vector<unsigned char*> stacks;
  std::vector<std::pair<size_t, unsigned char*>> memory;
  std::mt19937_64 random;
  // Where `order` lies: code in a fiber calls nothing that the sanitizer watches.
  Fiber** sequence = nullptr;
  size_t count = 0, position = 0, alive = 0;
  /// Turns in which somebody waited, since something has changed.
  size_t idle = 0;
  bool shuffled = false, failed = false;
  /// A cluster has ended.
  bool ended = false;
  std::string reason;
  Fiber main;
};
extern __thread Pool* scheduler;

/// The fiber that runs cannot go on, and nothing has changed: lets others run.
void blocked(Wait wait);
/// Lets others run.
void yield();
/// The kernel of the fiber that runs has made a mistake. Does not return.
[[noreturn]] void fail(const char* what);
/// With a seed, now and then: something that is under way to the running cluster lands.
void land_some();

}  // namespace emulator
