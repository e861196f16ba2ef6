// The detector of `races.h`, and the functions that -fsanitize=thread calls.
#include "races.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator.h"

emulator::Plant emulator::plant;

namespace races {

unsigned long found = 0;
const void* first_place = nullptr;

namespace {

using Vector = std::vector<uint32_t>;
/// The clocks that are known of another cluster's threads.
struct Part {
  uint32_t group;
  std::shared_ptr<const Vector> clock;
};
struct Clock {
  Vector own;
  std::vector<Part> others;
};

/// By a thread of a cluster, or one of its mbarriers; group 0: none.
struct Access {
  uint32_t group = 0, thread = 0, clock = 0;
};
/// Readers of one cluster, and then those of another. A word has few as a rule: only of more than these is a clock for each thread kept.
struct Readers {
  static constexpr size_t FEW = 8;
  uint32_t group;
  std::vector<std::pair<uint32_t, uint32_t>> few;
  Vector many;
  Readers* next;
  /// Notes the clock of a thread of `threads`.
  void note(uint32_t thread, uint32_t clock, size_t threads) {
    if (many.empty()) {
      for (auto& [who, when] : few) {
        if (who == thread) return void(when = when < clock ? clock : when);
      }
      if (few.size() < FEW) return few.emplace_back(thread, clock), void();
      many.assign(threads > thread ? threads : thread + 1, 0);
      for (const auto& [who, when] : few) {
        if (many.size() <= who) many.resize(who + 1);
        many[who] = when;
      }
      few.clear();
    }
    if (many.size() <= thread) many.resize(thread + 1);
    if (many[thread] < clock) many[thread] = clock;
  }
};
struct Cell {
  Access write, read;
  Access plain;         // the last write that was not atomic
  bool atomic = false;  // the last write was
  uint32_t crowd = 0;   // a cluster that has read, of too many to keep
  Readers* readers = nullptr;
};
/// The clock of a write that is under way: no thread's clock comes so far.
constexpr uint32_t UNDER_WAY = ~0u;
constexpr size_t PAGE = 1024;  // cells of four bytes
/// Clusters whose reads of a cell are kept.
constexpr size_t READING = 8;
struct Page {
  Cell cells[PAGE];
};

struct Meeting {
  unsigned generation[2] = {~0u, ~0u};
  Clock clock[2];
};
/// An mbarrier: who has arrived in the phase that is open, and in those that have ended.
struct Gate {
  Clock open, ended;
};
/// A cluster that runs.
struct Group {
  uint32_t number, launch, threads;
  std::vector<Clock> clocks;
  std::vector<Gate> gates;
  std::unordered_map<const void*, Meeting> meetings;
  std::unordered_map<const void*, Clock> ended;
};
/// When a launch began and ended.
struct Times {
  uint32_t begun = 0, ended = ~0u;
};

std::unordered_map<uintptr_t, Page*> pages;
uintptr_t last_number = ~uintptr_t(0);
Page* last_page = nullptr;
uint32_t now = 0;
size_t running = 0;
/// The barriers that each launch of `check` comes to, a bit for each; and how many launches there were since it called `kernels`.
std::vector<uint64_t> met;
size_t visits = 0;
std::vector<Times> launches;
/// The launch of each cluster, and those that run; none has number 0.
std::vector<uint32_t> launch_of(1);
std::vector<std::unique_ptr<Group>> groups(1);
std::unordered_map<const void*, std::vector<Part>> flags;
/// Those that no cell has.
Readers* spare = nullptr;

/// Functions of the library that both programs have may be those with the calls: nothing that is done here counts.
bool busy = false;
struct Quiet {
  const bool before = busy;
  Quiet() { busy = true; }
  ~Quiet() { busy = before; }
};

Cell& cell(uintptr_t at) {
  const uintptr_t number = at / (4 * PAGE);
  if (number != last_number) {
    Page*& page = pages[number];
    if (!page) page = new Page;
    last_page = page, last_number = number;
  }
  return last_page->cells[at / 4 % PAGE];
}
/// The cells of some bytes.
template <class F>
void each(const void* at, size_t bytes, F work) {
  const uintptr_t from = reinterpret_cast<uintptr_t>(at), end = from + bytes;
  for (uintptr_t a = from / 4 * 4; a < end; a += 4) work(cell(a));
}

uint32_t value(const Vector& clock, uint32_t thread) { return thread < clock.size() ? clock[thread] : 0; }

void join(Vector& into, const Vector& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); i++) into[i] = into[i] < from[i] ? from[i] : into[i];
}
bool covers(const Vector& a, const Vector& b) {
  for (size_t i = 0; i < b.size(); i++) {
    if (value(a, i) < b[i]) return false;
  }
  return true;
}
bool covers(const Vector& a, const Readers& b) {
  for (const auto& [who, when] : b.few) {
    if (value(a, who) < when) return false;
  }
  return covers(a, b.many);
}
void join(std::vector<Part>& into, const Part& from) {
  for (Part& part : into) {
    if (part.group != from.group) continue;
    if (part.clock == from.clock || covers(*part.clock, *from.clock)) return;
    if (covers(*from.clock, *part.clock)) {
      part.clock = from.clock;
    } else {
      Vector both = *part.clock;
      join(both, *from.clock);
      part.clock = std::make_shared<const Vector>(std::move(both));
    }
    return;
  }
  into.push_back(from);
}
void join(Clock& into, const Clock& from) {
  join(into.own, from.own);
  for (const Part& part : from.others) join(into.others, part);
}

/// The cluster that runs, and the number of its thread that does.
Group& here() { return *groups[emulator::current->block->group]; }
inline uint32_t number() {
  const emulator::Fiber* fiber = emulator::current;
  return fiber->block->rank * fiber->block->threads + fiber->thread;
}

/// Whether the launch of a cluster had ended when that of another began.
bool ended(uint32_t group, const Group& g) { return launches[launch_of[group]].ended < launches[g.launch].begun; }

const Vector* known(const Clock& clock, uint32_t group) {
  for (const Part& part : clock.others) {
    if (part.group == group) return part.clock.get();
  }
  return nullptr;
}

/// Whether an access is ordered before somebody of a cluster whose clock this is.
inline bool before(const Access& a, const Group& g, const Clock& clock) {
  if (a.group == 0) return true;
  if (a.group == g.number) return a.clock <= value(clock.own, a.thread);
  if (ended(a.group, g)) return true;
  const Vector* other = known(clock, a.group);
  return other && a.clock <= value(*other, a.thread);
}

/// Whether all readers of a cell are ordered before.
bool read_before(const Cell& c, const Group& g, const Clock& clock) {
  if (!before(c.read, g, clock)) return false;
  if (c.crowd != 0 && !ended(c.crowd, g)) return false;
  for (const Readers* r = c.readers; r; r = r->next) {
    if (r->group != g.number && ended(r->group, g)) continue;
    const Vector* its = r->group == g.number ? &clock.own : known(clock, r->group);
    if (!its || !covers(*its, *r)) return false;
  }
  return true;
}

void take_out(Readers*& place) {
  Readers* const readers = place;
  place = readers->next;
  readers->few.clear(), readers->many = Vector();
  readers->next = spare, spare = readers;
}
void forget_readers(Cell& c) {
  while (c.readers) take_out(c.readers);
  c.crowd = 0, c.read = Access();
}

/// Forgets readers of launches that had ended when that of a cluster began.
void forget_ended(Cell& c, const Group& g) {
  if (c.crowd != 0 && ended(c.crowd, g)) c.crowd = 0;
  for (Readers** place = &c.readers; *place;) {
    if ((*place)->group != g.number && ended((*place)->group, g)) take_out(*place);
    else place = &(*place)->next;
  }
}

/// Notes one of the readers that are not ordered.
void note(Cell& c, const Access& a) {
  Readers** place = &c.readers;
  size_t count = 0;
  for (; *place && (*place)->group != a.group; place = &(*place)->next) count++;
  if (!*place) {
    if (count == READING) {
      c.crowd = c.readers->group;
      take_out(c.readers);
    }
    Readers* const made = spare ? spare : new Readers();
    if (spare) spare = spare->next;
    made->group = a.group, made->next = c.readers;
    c.readers = made, place = &c.readers;
  }
  (*place)->note(a.thread, a.clock, groups[a.group] ? groups[a.group]->threads : 0);
}

/// `mine`: the access that is noted, of who has this clock or of an mbarrier.
void on_read(Cell& c, const Group& g, const Clock& clock, const Access& mine, const void* place) {
  if (!before(c.write, g, clock)) report(place);
  Readers* const first = c.readers;
  if (first && first->group == mine.group) {
    first->note(mine.thread, mine.clock, g.threads);
    c.read = mine;
    return;
  }
  if (first) forget_ended(c, g);
  if (c.readers) {
    note(c, mine);
  } else if (!before(c.read, g, clock)) {
    note(c, c.read);
    note(c, mine);
  }
  c.read = mine;
}

void on_write(Cell& c, const Group& g, const Clock& clock, const Access& mine, bool atomic, const void* place) {
  const Access& last = c.write;
  const bool landed = last.clock == UNDER_WAY && last.thread == mine.thread && last.group == mine.group;
  if (!landed && !before(atomic && c.atomic ? c.plain : last, g, clock)) report(place);
  if (!read_before(c, g, clock)) report(place);
  forget_readers(c);
  c.write = mine;
  if (!atomic) c.plain = mine;
  c.atomic = atomic;
}

}  // namespace

void report(const void* place) {
  if (found++ == 0) first_place = place;
}

void check(int first, int last, void (*kernels)()) {
  for (int number = first - 1; number <= last; number++) {
    emulator::plant.number = number < first ? 0 : number;
    found = 0, first_place = nullptr, visits = 0;
    printf("%d:", emulator::plant.number);
    kernels();
    printf(" %lu races", found);
    if (first_place) printf(", the first at %p", first_place);
    puts("");
    fflush(stdout);
  }
}

/// With all barriers a launch gets its place in `met`; without one it finds what it was there.
static bool is_wanted() {
  const int number = emulator::plant.number;
  if (number == 0) met.resize(visits + 1);
  return number == 0 || met[visits] >> number & 1;
}
Visit::Visit(const char* name) : name(name), before(found), wanted(is_wanted()) { visits++; }
Visit::~Visit() {
  if (found > before) printf(" %s", name);
}

void access(const void* at, size_t bytes, bool write, bool atomic, const void* place) {
  const emulator::Fiber* fiber = emulator::current;
  if (busy || !fiber || !fiber->block) return;
  // A thread's own stack. Shared memory may lie right beside it.
  if (at >= fiber->stack && at < fiber->stack_end) return;
  Quiet quiet;
  const Group& g = here();
  const uint32_t thread = number();
  const Clock& clock = g.clocks[thread];
  const Access mine{g.number, thread, clock.own[thread]};
  each(at, bytes, [&](Cell& c) {
    if (write) on_write(c, g, clock, mine, atomic, place);
    else on_read(c, g, clock, mine, place);
  });
}

void begun(const void* at, size_t bytes) {
  Quiet quiet;
  const Group& g = here();
  const Access mine{g.number, number(), UNDER_WAY};
  each(at, bytes, [&](Cell& c) { on_write(c, g, g.clocks[mine.thread], mine, false, nullptr); });
}

void landed(const void* at, size_t bytes) {
  Quiet quiet;
  const Group& g = here();
  each(at, bytes, [&](Cell& c) {
    Access& write = c.write;
    if (write.clock != UNDER_WAY || write.group != g.number || write.thread != number()) return;
    write.clock = g.clocks[number()].own[number()];
  });
}

unsigned launch() {
  launches.push_back({++now, ~0u});
  return unsigned(launches.size() - 1);
}

void end_launch(unsigned launch) { launches[launch].ended = ++now; }

unsigned group(unsigned launch, unsigned threads) {
  Quiet quiet;
  const uint32_t number = uint32_t(groups.size());
  groups.push_back(std::make_unique<Group>());
  launch_of.push_back(launch);
  Group& g = *groups.back();
  g.number = number, g.launch = launch, g.threads = threads;
  g.clocks.resize(threads);
  for (unsigned t = 0; t < threads; t++) {
    g.clocks[t].own.resize(threads);
    g.clocks[t].own[t] = 1;
  }
  running++;
  return number;
}

void over(unsigned group) {
  Quiet quiet;
  groups[group].reset();
  if (--running == 0) flags.clear();
}

void fresh(const void* at, size_t bytes) {
  Quiet quiet;
  each(at, bytes, [](Cell& c) {
    forget_readers(c);
    c = Cell();
  });
}

void arrive(const void* barrier, unsigned generation, unsigned thread) {
  Quiet quiet;
  Group& g = here();
  Meeting& m = g.meetings[barrier];
  Clock& clock = m.clock[generation % 2];
  if (m.generation[generation % 2] != generation) {
    m.generation[generation % 2] = generation;
    clock = Clock();
  }
  join(clock, g.clocks[thread]);
  g.clocks[thread].own[thread]++;
}

void leave(const void* barrier, unsigned generation, unsigned thread) {
  Quiet quiet;
  Group& g = here();
  join(g.clocks[thread], g.meetings[barrier].clock[generation % 2]);
}

unsigned gate() {
  Quiet quiet;
  Group& g = here();
  g.gates.emplace_back();
  return g.threads + unsigned(g.gates.size()) - 1;
}

void enter(unsigned gate) {
  Quiet quiet;
  Group& g = here();
  join(g.gates[gate - g.threads].open, g.clocks[number()]);
  g.clocks[number()].own[number()]++;
}

void turn(unsigned gate, unsigned phase) {
  Quiet quiet;
  Group& g = here();
  Gate& it = g.gates[gate - g.threads];
  join(it.ended, it.open);
  it.open = Clock();
  if (it.ended.own.size() <= gate) it.ended.own.resize(gate + 1);
  it.ended.own[gate] = phase + 1;
}

void pass(unsigned gate) {
  Quiet quiet;
  Group& g = here();
  join(g.clocks[number()], g.gates[gate - g.threads].ended);
}

void send(unsigned gate, unsigned phase, const void* to, const void* from, size_t bytes) {
  Quiet quiet;
  Group& g = here();
  const Clock& clock = g.clocks[number()];
  const Access its{g.number, gate, phase + 1};
  if (from) each(from, bytes, [&](Cell& c) { on_read(c, g, clock, its, nullptr); });
  each(to, bytes, [&](Cell& c) { on_write(c, g, clock, its, false, nullptr); });
  // Who sees a value that was sent sees what its sender had seen.
  enter(gate);
}

void release(const void* flag) {
  Quiet quiet;
  Group& g = here();
  Clock& clock = g.clocks[number()];
  std::vector<Part>& parts = flags[flag];
  join(parts, Part{g.number, std::make_shared<const Vector>(clock.own)});
  for (const Part& part : clock.others) join(parts, part);
  clock.own[number()]++;
}

void acquire(const void* flag) {
  Quiet quiet;
  Group& g = here();
  Clock& clock = g.clocks[number()];
  for (const Part& part : flags[flag]) {
    if (part.group == g.number) join(clock.own, *part.clock);
    else join(clock.others, part);
  }
}

void done(const void* shared, size_t bytes, unsigned thread, bool last) {
  Quiet quiet;
  Group& g = here();
  Clock& all = g.ended[shared];
  join(all, g.clocks[thread]);
  if (!last) return;
  bool good = true;
  each(shared, bytes, [&](const Cell& c) { good &= before(c.write, g, all) && read_before(c, g, all); });
  if (!good) report(nullptr);
}

}  // namespace races

bool emulator::Plant::operator==(int barrier) const {
  if (number == 0) races::met[races::visits - 1] |= uint64_t(1) << barrier;
  return number == barrier;
}

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
