// The detector of `races.h`, and the functions that -fsanitize=thread calls.
#include "races.h"

#include <cstdint>
#include <cstdio>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator.h"

int emulator::plant = 0;

namespace races {

unsigned long found = 0;
const void* first_place = nullptr;

namespace {

using Clock = std::vector<uint32_t>;

struct Access {
  uint32_t launch = 0, cluster = 0, thread = 0, clock = 0;
};
struct Cell {
  Access write, read;
  bool atomic = false;   // the last write was one
  bool several = false;  // clusters have read
  Clock* readers = nullptr;
};
/// The clock of a write that is under way: no thread's clock comes so far.
constexpr uint32_t UNDER_WAY = ~0u;
constexpr size_t PAGE = 1024;  // cells of four bytes
struct Page {
  Cell cells[PAGE];
};

std::unordered_map<uintptr_t, Page*> pages;
uintptr_t last_number = ~uintptr_t(0);
Page* last_page = nullptr;
uint32_t launches = 0, clusters = 0;
std::vector<Clock> clocks;
std::unordered_map<const void*, Clock> ended;

struct Meeting {
  unsigned generation[2] = {~0u, ~0u};
  Clock clock[2];
};
std::unordered_map<const void*, Meeting> meetings;

Cell& cell(uintptr_t at) {
  const uintptr_t number = at / (4 * PAGE);
  if (number != last_number) {
    Page*& page = pages[number];
    if (!page) page = new Page;
    last_page = page, last_number = number;
  }
  return last_page->cells[at / 4 % PAGE];
}

void join(Clock& into, const Clock& from) {
  for (size_t i = 0; i < into.size(); i++) into[i] = into[i] < from[i] ? from[i] : into[i];
}

/// Whether an access of this launch is ordered before a thread of the running cluster whose clock this is.
bool before(const Access& a, const Clock& now) {
  return a.launch != launches || (a.cluster == clusters && a.clock <= now[a.thread]);
}

void report(const void* place) {
  if (found++ == 0) first_place = place;
}

/// The number of the thread that runs in its cluster.
unsigned number() {
  const emulator::Fiber* fiber = emulator::current;
  return fiber->block->rank * fiber->block->threads + fiber->thread;
}

/// Whether all readers of a cell are ordered before.
bool read_before(const Cell& c, const Clock& now) {
  if (c.read.launch != launches) return true;
  if (c.several || !before(c.read, now)) return false;
  for (size_t t = 0; c.readers && t < now.size(); t++) {
    if ((*c.readers)[t] > now[t]) return false;
  }
  return true;
}

void on_read(Cell& c, unsigned thread, const void* place) {
  const Clock& now = clocks[thread];
  if (!before(c.write, now)) report(place);
  const Access mine{launches, clusters, thread, now[thread]};
  if (c.read.launch != launches) {
    delete c.readers;
    c.readers = nullptr, c.several = false;
  } else if (c.read.cluster != clusters) {
    c.several = true;
    delete c.readers;
    c.readers = nullptr;
  } else if (c.readers) {
    (*c.readers)[thread] = mine.clock;
  } else if (c.read.thread != thread && !before(c.read, now)) {
    c.readers = new Clock(now.size());
    (*c.readers)[c.read.thread] = c.read.clock;
    (*c.readers)[thread] = mine.clock;
  }
  c.read = mine;
}

void on_write(Cell& c, unsigned thread, bool atomic, const void* place) {
  const Clock& now = clocks[thread];
  const bool landed = c.write.clock == UNDER_WAY && c.write.thread == thread && c.write.cluster == clusters;
  if (!(atomic && c.atomic) && !landed && !before(c.write, now)) report(place);
  if (!read_before(c, now)) report(place);
  c.write = {launches, clusters, thread, now[thread]};
  c.atomic = atomic;
}

}  // namespace

void access(const void* at, size_t bytes, bool write, bool atomic, const void* place) {
  emulator::Fiber* fiber = emulator::current;
  if (!fiber || !fiber->block) return;
  // A thread's own stack. Shared memory may lie right beside it.
  if (at >= fiber->stack && at < fiber->stack_end) return;
  const uintptr_t from = reinterpret_cast<uintptr_t>(at);
  const unsigned thread = number();
  for (uintptr_t a = from / 4 * 4; a < from + bytes; a += 4) {
    if (write) on_write(cell(a), thread, atomic, place);
    else on_read(cell(a), thread, place);
  }
}

void begun(const void* at, size_t bytes) {
  const unsigned thread = number();
  for (uintptr_t a = reinterpret_cast<uintptr_t>(at) / 4 * 4, end = reinterpret_cast<uintptr_t>(at) + bytes; a < end; a += 4) {
    Cell& c = cell(a);
    on_write(c, thread, false, nullptr);
    c.write.clock = UNDER_WAY;
  }
}

void landed(const void* at, size_t bytes) {
  const unsigned thread = number();
  for (uintptr_t a = reinterpret_cast<uintptr_t>(at) / 4 * 4, end = reinterpret_cast<uintptr_t>(at) + bytes; a < end; a += 4) {
    Access& write = cell(a).write;
    if (write.clock == UNDER_WAY && write.thread == thread) write.clock = clocks[thread][thread];
  }
}

void launch() { launches++, clusters = 0; }

void cluster(unsigned threads) {
  clusters++;
  clocks.assign(threads, Clock(threads));
  for (unsigned t = 0; t < threads; t++) clocks[t][t] = 1;
  meetings.clear();
  ended.clear();
}

void fresh(const void* at, size_t bytes) {
  for (uintptr_t a = reinterpret_cast<uintptr_t>(at) / 4 * 4, end = reinterpret_cast<uintptr_t>(at) + bytes; a < end; a += 4) {
    Cell& c = cell(a);
    delete c.readers;
    c = Cell();
  }
}

void arrive(const void* barrier, unsigned generation, unsigned thread) {
  Meeting& m = meetings[barrier];
  Clock& clock = m.clock[generation % 2];
  if (m.generation[generation % 2] != generation) {
    m.generation[generation % 2] = generation;
    clock.assign(clocks.size(), 0);
  }
  join(clock, clocks[thread]);
  clocks[thread][thread]++;
}

void leave(const void* barrier, unsigned generation, unsigned thread) {
  join(clocks[thread], meetings[barrier].clock[generation % 2]);
}

void done(const void* shared, size_t bytes, unsigned thread, bool last) {
  Clock& all = ended[shared];
  if (all.empty()) all.assign(clocks.size(), 0);
  join(all, clocks[thread]);
  if (!last) return;
  const uintptr_t from = reinterpret_cast<uintptr_t>(shared);
  for (uintptr_t a = from; a < from + bytes; a += 4) {
    const Cell& c = cell(a);
    if (!before(c.write, all) || !read_before(c, all)) return report(nullptr);
  }
}

}  // namespace races

#define PLACE __builtin_return_address(0)
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
#define SIZED(bytes)                                                                                       \
  void __tsan_read##bytes(void* at) { races::access(at, bytes, false, false, PLACE); }                     \
  void __tsan_write##bytes(void* at) { races::access(at, bytes, true, false, PLACE); }                     \
  void __tsan_unaligned_read##bytes(void* at) { races::access(at, bytes, false, false, PLACE); }           \
  void __tsan_unaligned_write##bytes(void* at) { races::access(at, bytes, true, false, PLACE); }
SIZED(1)
SIZED(2)
SIZED(4)
SIZED(8)
SIZED(16)
void __tsan_read_range(void* at, size_t bytes) { races::access(at, bytes, false, false, PLACE); }
void __tsan_write_range(void* at, size_t bytes) { races::access(at, bytes, true, false, PLACE); }
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void* __tsan_memcpy(void* to, const void* from, size_t bytes) { return memcpy(to, from, bytes); }
void* __tsan_memset(void* to, int byte, size_t bytes) { return memset(to, byte, bytes); }
uint64_t __tsan_atomic64_fetch_add(volatile uint64_t* at, uint64_t value, int) {
  races::access(const_cast<uint64_t*>(at), 8, true, true, PLACE);
  const uint64_t was = *at;
  *at = was + value;
  return was;
}
// As strict as a write: what is atomic is in no race with it, and nothing else is read and written here.
uint64_t __tsan_atomic64_load(const volatile uint64_t* at, int) {
  races::access(const_cast<uint64_t*>(at), 8, true, true, PLACE);
  return *at;
}
bool __tsan_atomic64_compare_exchange_strong(volatile uint64_t* at, uint64_t* wanted, uint64_t value, int, int) {
  races::access(const_cast<uint64_t*>(at), 8, true, true, PLACE);
  const uint64_t was = *at;
  if (was == *wanted) *at = value;
  const bool done = was == *wanted;
  *wanted = was;
  return done;
}
}
