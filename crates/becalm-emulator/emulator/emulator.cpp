// The scheduler of the fibers: round robin over the threads of a block, the blocks of one cluster, one cluster after another; several
// where all wait.
#include "scheduler.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulator {

__thread Fiber* current;
__thread Pool* scheduler;

namespace {

constexpr size_t STACK = 64 << 10;
/// Whether a block keeps its turn. Not under the race check: a reader that comes late has seen what it should have waited for.
#if defined(BECALM_PLANTS)
constexpr bool TOGETHER = false;
#else
constexpr bool TOGETHER = true;
#endif
/// The distance, in turns, of the fiber whose stack is fetched.
constexpr size_t AHEAD = 2;
/// Asynchronous copies that a thread may have under way.
constexpr unsigned COPIES = 64;
/// The bytes of shared memory that nobody wrote.
constexpr unsigned char UNSET = 0xA5;

#if defined(__x86_64__)
// Saves the registers that a call keeps on the stack of one fiber and takes them from that of another.
extern "C" void becalm_emulator_switch(void** from, void* to);
asm(R"(
.text
.globl becalm_emulator_switch
.hidden becalm_emulator_switch
.type becalm_emulator_switch,@function
becalm_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size becalm_emulator_switch,.-becalm_emulator_switch
)");
EMULATOR_INTERNAL void prepare(Fiber& fiber, unsigned char* stack, void (*entry)()) {
  void** top = reinterpret_cast<void**>(stack + STACK - 64);
  *--top = nullptr;  // where `entry` would return to; keeps its stack aligned
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; i++) *--top = nullptr;
  fiber.stack_pointer = top;
}
EMULATOR_INTERNAL void change(Fiber& from, Fiber& to) {
  becalm_emulator_switch(&from.stack_pointer, to.stack_pointer);
}
#else
EMULATOR_INTERNAL void prepare(Fiber& fiber, unsigned char* stack, void (*entry)()) {
  ucontext_t* context = new (stack) ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = stack + sizeof(ucontext_t) + 64;
  context->uc_stack.ss_size = STACK - sizeof(ucontext_t) - 128;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  fiber.stack_pointer = context;
}
EMULATOR_INTERNAL void change(Fiber& from, Fiber& to) {
  static thread_local ucontext_t main;
  if (!from.stack_pointer) from.stack_pointer = &main;
  swapcontext(static_cast<ucontext_t*>(from.stack_pointer), static_cast<ucontext_t*>(to.stack_pointer));
}
#endif

#if defined(BECALM_PLANTS)
/// A thread's number in its cluster.
unsigned number(const Fiber* fiber) { return fiber->block->rank * fiber->block->threads + fiber->thread; }
#endif

EMULATOR_INTERNAL void switch_to(Fiber* to) {
  Fiber* from = current;
  current = to;
  change(*from, *to);
}

/// Whether all threads have waited, each twice at least, and nothing has changed meanwhile.
bool stuck(const Pool& s) { return s.idle > 2 * s.count; }

/// Whether a fiber cannot go on; one that waits at a barrier is not woken to look.
EMULATOR_INTERNAL bool waits(Pool& s, const Fiber& fiber) {
  if (fiber.done) return true;
  if (!fiber.at || fiber.at->generation != fiber.generation) return false;
  s.idle++;
  return true;
}

/// The next fiber that can go on, or the scheduler where nothing changes any more. While a block can go on, its own fibers are next,
/// because the stacks of a whole cluster do not fit into the caches. With a seed, another block comes between now and then.
EMULATOR_INTERNAL Fiber* next() {
  Pool& s = *scheduler;
  do {
    if (stuck(s)) return &s.main;
    Block* block = s.sequence[s.position]->block;
    s.position = s.position + 1 == s.count ? 0 : s.position + 1;
    if (TOGETHER && block->moved && s.sequence[s.position]->block != block) {
      block->moved = false;
      if (!s.shuffled || s.random() % 4 != 0) s.position = block->first;
    }
  } while (waits(s, *s.sequence[s.position]));
  // The stack of one of those that follow is on its way meanwhile.
  if (s.position + AHEAD < s.count) __builtin_prefetch(s.sequence[s.position + AHEAD]->stack_pointer);
  return s.sequence[s.position];
}

/// Draws an order of so many fibers from the `first`-th on.
EMULATOR_INTERNAL void shuffle(size_t first, size_t count) {
  Pool& s = *scheduler;
  for (size_t i = count - 1; i > 0; i--) std::swap(s.sequence[first + i], s.sequence[first + s.random() % (i + 1)]);
}

/// Draws an order of the blocks of the running cluster.
EMULATOR_INTERNAL void shuffle_blocks() {
  Pool& s = *scheduler;
  const Block& one = *current->block;
  for (unsigned i = one.cluster_threads / one.threads - 1; i > 0; i--) {
    Block &a = one.blocks[i], &b = one.blocks[s.random() % (i + 1)];
    for (unsigned t = 0; t < one.threads; t++) std::swap(s.sequence[a.first + t], s.sequence[b.first + t]);
    std::swap(a.first, b.first);
  }
}

EMULATOR_INTERNAL void entry() {
  const Work& work = current->block->of->launch->work;
  work.body(work.context);
  Pool& s = *scheduler;
  Block* block = current->block;
  for (unsigned i = 0; i < current->copies; i++) *copy(i).to = *copy(i).from;
  block->left--;
  for (size_t i = block->of->launch->work.shape.shared; block->left == 0 && i < block->shared_bytes; i++) {
    if (block->shared[i] != UNSET) fail("a block writes behind its shared memory");
  }
#if !defined(BECALM_PLANTS)
  if (block->left == 0 && block->of->under_way > 0) {
    for (const Mbarrier& m : block->of->mbarriers) {
      if (m.block == block && !m.under_way.empty()) fail("a block ends while stores or copies to it are under way");
    }
  }
#endif
  RACES(done(block->shared, block->shared_bytes, number(current), block->left == 0));
  current->done = true;
  s.alive--;
  s.idle = 0;
  if (--block->of->alive == 0) s.ended = true, switch_to(&s.main);
  switch_to(next());
  abort();
}

}  // namespace

EMULATOR_INTERNAL void yield() {
  Fiber* to = next();
  if (to != current) switch_to(to);
}

EMULATOR_INTERNAL void blocked(Wait wait) {
  Pool& s = *scheduler;
  current->wait = wait;
  s.idle++;
  yield();
}

EMULATOR_INTERNAL void fail(const char* what) {
  Pool& s = *scheduler;
  const Block& block = *current->block;
  s.reason = std::string(what) + " (thread " + std::to_string(current->thread) + " of block " + std::to_string(block.index.x) + ")";
  s.failed = true;
  switch_to(&s.main);
  abort();
}

EMULATOR_INTERNAL unsigned arrive(Barrier& barrier, unsigned threads) {
  const unsigned generation = barrier.generation;
  RACES(arrive(&barrier, generation, number(current)));
  Pool& s = *scheduler;
  s.idle = 0;
  current->reads = 0;
  if (++barrier.waiting < threads) return generation;
  barrier.waiting = 0;
  barrier.generation++;
  Block& block = *current->block;
  block.moved = true;
  if (s.shuffled && threads > 32) {
    land_some();
    if (threads > block.threads) shuffle_blocks();
    shuffle(block.first, block.threads);
  }
  return generation;
}

/// Waits while a barrier is in a generation.
EMULATOR_INTERNAL void wait_in(const Barrier& barrier, unsigned generation) {
  current->at = &barrier, current->generation = generation;
  while (barrier.generation == generation) blocked(Wait::BARRIER);
  current->at = nullptr;
}

EMULATOR_INTERNAL void await(Barrier& barrier, unsigned generation) {
  wait_in(barrier, generation);
  RACES(leave(&barrier, generation, number(current)));
}

EMULATOR_INTERNAL void wait(Barrier& barrier, unsigned threads, bool ordered) {
#if defined(BECALM_PLANTS)
  if (!ordered) {
    scheduler->idle = 0;
    unsigned generation = barrier.generation;
    if (++barrier.waiting == threads) {
      barrier.waiting = 0;
      barrier.generation++;
      current->block->moved = true;
    }
    wait_in(barrier, generation);
    return;
  }
#endif
  (void)ordered;
  await(barrier, arrive(barrier, threads));
}

EMULATOR_INTERNAL const uint64_t* exchange(uint64_t word) {
  Fiber* fiber = current;
  Warp& warp = fiber->block->warps[fiber->thread / 32];
  // Two sets of words: no lane writes the set that a slow lane still reads before that lane has come again.
  uint64_t* words = warp.words[fiber->exchanges++ % 2];
  words[fiber->thread % 32] = word;
  wait(warp.barrier, 32, false);
  return words;
}

EMULATOR_INTERNAL Copy& place_of_copy(unsigned i) {
  Cluster& cluster = *current->block->of;
  return cluster.copying[(current - cluster.fibers.data()) * COPIES + i];
}
EMULATOR_INTERNAL void begin_copy(double2* to, const double2* from) {
  Cluster& cluster = *current->block->of;
  if (cluster.copying.empty()) cluster.copying.resize(cluster.fibers.size() * COPIES);
  if (current->copies == COPIES) fail("more asynchronous copies of a thread than the emulator keeps");
  RACES(begun(to, sizeof(double2)));
  place_of_copy(current->copies++) = {to, from};
}
EMULATOR_INTERNAL Copy copy(unsigned i) { return place_of_copy(i); }
EMULATOR_INTERNAL unsigned copies() { return current->copies; }
EMULATOR_INTERNAL void commit_copies() {
  Fiber& f = *current;
  if (f.groups == sizeof f.ends / sizeof *f.ends) fail("more groups of copies of a thread than the emulator keeps");
  f.ends[f.groups++] = f.copies;
}
EMULATOR_INTERNAL unsigned copies_but(unsigned left) { return current->groups > left ? current->ends[current->groups - left - 1] : 0; }
EMULATOR_INTERNAL void end_copies(unsigned count) {
  Fiber& f = *current;
  for (unsigned i = 0; i < count; i++) RACES(landed(copy(i).to, sizeof(double2)));
  for (unsigned i = count; i < f.copies; i++) place_of_copy(i - count) = copy(i);
  f.copies -= count;
  unsigned left = 0;
  for (unsigned i = 0; i < f.groups; i++) {
    if (f.ends[i] > count) f.ends[left++] = f.ends[i] - count;
  }
  f.groups = left;
}

uint64_t clocks() {
  return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

namespace {

unsigned char* take_stack(Pool& s) {
  if (s.stacks.empty()) return static_cast<unsigned char*>(aligned_alloc(64, STACK));
  unsigned char* stack = s.stacks.back();
  s.stacks.pop_back();
  return stack;
}

unsigned char* take_memory(Pool& s, size_t bytes) {
  for (auto& piece : s.memory) {
    if (piece.first != bytes) continue;
    unsigned char* at = piece.second;
    piece = s.memory.back();
    s.memory.pop_back();
    return at;
  }
  return static_cast<unsigned char*>(aligned_alloc(128, bytes));
}

void free_all(Pool& s) {
  for (unsigned char* stack : s.stacks) free(stack);
  for (const auto& piece : s.memory) free(piece.second);
  s.stacks.clear();
  s.memory.clear();
}

/// Block number `i` of a launch, the `rank`-th of its cluster.
void begin_block(Pool& s, Cluster& cluster, unsigned rank, unsigned i) {
  const Launch& shape = cluster.launch->work.shape;
  const unsigned x = shape.grid.x, y = shape.grid.y, threads = shape.block.x;
  const size_t bytes = (shape.shared + 255) / 128 * 128;
  Block& block = cluster.blocks[rank];
  block.shared = take_memory(s, bytes), block.shared_bytes = bytes, block.left = threads;
  memset(block.shared, UNSET, bytes);
  RACES(fresh(block.shared, bytes));
  block.cluster = &cluster.together, block.of = &cluster, block.blocks = cluster.blocks.data();
  block.group = cluster.blocks[0].group;
  block.first = s.order.size(), block.moved = false;
  block.rank = rank, block.threads = threads, block.cluster_threads = unsigned(cluster.fibers.size());
  block.index = dim3(i % x, i / x % y, i / x / y), block.size = shape.block, block.grid = shape.grid;
  for (unsigned t = 0; t < threads; t++) {
    Fiber& fiber = cluster.fibers[rank * threads + t];
    unsigned char* stack = take_stack(s);
    fiber.block = &block, fiber.thread = t;
    fiber.stack = stack, fiber.stack_end = stack + STACK;
    prepare(fiber, stack, entry);
    s.order.push_back(&fiber);
  }
}

/// Begins the next cluster of some launch; false if all have begun.
bool begin_cluster(Pool& s) {
  std::vector<Running*> open;
  for (auto& launch : s.launches) {
    if (launch->next < launch->blocks) open.push_back(launch.get());
  }
  if (open.empty()) return false;
  Running& launch = *open[s.shuffled ? s.random() % open.size() : 0];
  const Launch& shape = launch.work.shape;
  const unsigned count = shape.block.x * shape.cluster;
  s.clusters.push_back(std::make_unique<Cluster>());
  Cluster& cluster = *s.clusters.back();
  cluster.launch = &launch, cluster.alive = count;
  cluster.blocks.resize(shape.cluster);
  cluster.fibers.resize(count);
#if defined(BECALM_PLANTS)
  cluster.blocks[0].group = races::group(launch.race, count);
#endif
  // The first of its fibers comes next.
  s.position = s.order.empty() ? count - 1 : s.order.size() - 1;
  for (unsigned rank = 0; rank < shape.cluster; rank++) begin_block(s, cluster, rank, launch.next + rank);
  launch.next += shape.cluster;
  launch.clusters++;
  s.sequence = s.order.data(), s.count = s.order.size();
  s.alive += count, s.idle = 0;
  return true;
}

/// Gives back what a cluster has.
void clear(Pool& s, Cluster& cluster) {
  for (const Block& block : cluster.blocks) s.memory.push_back({block.shared_bytes, block.shared});
  for (const Fiber& fiber : cluster.fibers) s.stacks.push_back(const_cast<unsigned char*>(fiber.stack));
}

/// Clears clusters that have ended; whether a launch has, which is then forgotten.
bool reap(Pool& s, uint64_t* ticket) {
  s.ended = false;
  if (s.alive == 0) {
    s.order.clear();
  } else {
    size_t kept = 0;
    for (Fiber* fiber : s.order) {
      if (fiber->block->of->alive > 0) s.order[kept++] = fiber;
    }
    s.order.resize(kept);
    for (size_t i = kept; i-- > 0;) s.order[i]->block->first = i;
  }
  s.sequence = s.order.data(), s.count = s.order.size();
  s.position = s.count == 0 ? 0 : s.count - 1;
  for (size_t i = s.clusters.size(); i-- > 0;) {
    if (s.clusters[i]->alive > 0) continue;
    clear(s, *s.clusters[i]);
    RACES(over(s.clusters[i]->blocks[0].group));
    s.clusters[i]->launch->clusters--;
    s.clusters.erase(s.clusters.begin() + i);
  }
  for (size_t i = 0; i < s.launches.size(); i++) {
    const Running& launch = *s.launches[i];
    if (launch.clusters > 0 || launch.next < launch.blocks) continue;
    *ticket = launch.work.ticket;
    RACES(end_launch(launch.race));
    s.launches.erase(s.launches.begin() + i);
    return true;
  }
  return false;
}

/// Names what the threads wait for: a flag if one waits for that, else a phase.
void explain(Pool& s) {
  const char* const what[] = {"waits at a barrier that others do not reach", "waits for a phase of an mbarrier that does not end",
                              "waits for a flag that nobody raises"};
  const Fiber* worst = nullptr;
  for (const Fiber* fiber : s.order) {
    if (!fiber->done && (!worst || fiber->wait > worst->wait)) worst = fiber;
  }
  s.reason = "thread " + std::to_string(worst->thread) + " of block " + std::to_string(worst->block->index.x) + " " +
             what[int(worst->wait)];
}

}  // namespace

Pool* make_pool() { return new Pool; }

void end_pool(Pool* pool) {
  for (auto& cluster : pool->clusters) {
    clear(*pool, *cluster);
    RACES(over(cluster->blocks[0].group));
  }
#if defined(BECALM_PLANTS)
  for (auto& launch : pool->launches) races::end_launch(launch->race);
#endif
  free_all(*pool);
  delete pool;
}

void add(Pool& s, const Work& work) {
  s.launches.push_back(std::make_unique<Running>());
  Running& launch = *s.launches.back();
  launch.work = work;
  launch.blocks = work.shape.grid.x * work.shape.grid.y * work.shape.grid.z;
  if (s.launches.size() == 1) {
    s.shuffled = work.shape.seed != 0;
    s.random.seed(work.shape.seed);
  }
#if defined(BECALM_PLANTS)
  launch.race = races::launch();
#endif
  // Those that wait may go on when it has begun.
  begin_cluster(s);
}

Outcome go(Pool& s, uint64_t* ticket) {
  Fiber* const outside_fiber = current;
  Pool* const outside_pool = scheduler;
  scheduler = &s, current = &s.main;
  Outcome outcome = Outcome::DONE;
  for (;;) {
    if (s.alive == 0 && !begin_cluster(s)) break;
    if (stuck(s) && !begin_cluster(s)) {
      explain(s);
      outcome = Outcome::STUCK;
      break;
    }
    if (Fiber* fiber = next(); fiber != current) switch_to(fiber);
    if (s.failed) {
      outcome = Outcome::FAILED;
      break;
    }
    if (s.ended && reap(s, ticket)) {
      outcome = Outcome::ENDED;
      break;
    }
  }
  if (s.alive == 0) free_all(s);
  scheduler = outside_pool, current = outside_fiber;
  return outcome;
}

const char* why(const Pool& s) { return s.reason.c_str(); }

void run(const Launch& launch, Body* body, void* context) {
  Pool* pool = make_pool();
  add(*pool, {launch, body, context, 0});
  uint64_t ticket;
  const Outcome outcome = go(*pool, &ticket);
  if (outcome != Outcome::ENDED) {
    fprintf(stderr, "emulator: %s\n", why(*pool));
    abort();
  }
  end_pool(pool);
}

}  // namespace emulator
