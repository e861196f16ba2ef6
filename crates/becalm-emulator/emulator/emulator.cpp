// The scheduler of the fibers: round robin over the threads of one cluster, one cluster after another.
#include "emulator.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(BECALM_PLANTS)
#include "races.h"
#define RACES(call) races::call
#else
#define RACES(call)
#endif

namespace emulator {

__thread Fiber* current;

namespace {

constexpr size_t STACK = 64 << 10;
/// Asynchronous copies that a thread may have under way.
constexpr unsigned COPIES = 64;

struct Scheduler {
  std::vector<Fiber> fibers;
  std::vector<unsigned> order;
  std::vector<unsigned char*> stacks;
  std::vector<Copy> copying;
  std::mt19937_64 random;
  // Where `fibers` and `order` lie: code in a fiber calls nothing that the sanitizer watches.
  Fiber* first = nullptr;
  unsigned* sequence = nullptr;
  size_t count = 0, position = 0, alive = 0, idle = 0;
  bool shuffled = false;
  void (*body)(void*) = nullptr;
  void* context = nullptr;
  Fiber main;
};
thread_local Scheduler* scheduler;

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

/// Lets the next fiber that lives run, or the launcher when none does.
EMULATOR_INTERNAL void yield() {
  Scheduler& s = *scheduler;
  if (s.alive == 0) return switch_to(&s.main);
  for (size_t i = 0; i < s.count; i++) {
    s.position = s.position + 1 == s.count ? 0 : s.position + 1;
    Fiber* next = &s.first[s.sequence[s.position]];
    if (next->done) continue;
    if (next != current) switch_to(next);
    return;
  }
}

EMULATOR_INTERNAL void entry() {
  Scheduler* s = scheduler;
  s->body(s->context);
  s = scheduler;
  Block* block = current->block;
  for (unsigned i = 0; i < current->copies; i++) *copy(i).to = *copy(i).from;
  block->left--;
  RACES(done(block->shared, block->shared_bytes, number(current), block->left == 0));
  current->done = true;
  s->alive--;
  s->idle = 0;
  yield();
  abort();
}

}  // namespace

EMULATOR_INTERNAL unsigned arrive(Barrier& barrier, unsigned threads) {
  const unsigned generation = barrier.generation;
  RACES(arrive(&barrier, generation, number(current)));
  Scheduler& s = *scheduler;
  s.idle = 0;
  if (++barrier.waiting < threads) return generation;
  barrier.waiting = 0;
  barrier.generation++;
  if (s.shuffled && threads > 32) {
    for (size_t i = s.count - 1; i > 0; i--) std::swap(s.sequence[i], s.sequence[s.random() % (i + 1)]);
  }
  return generation;
}

EMULATOR_INTERNAL void await(Barrier& barrier, unsigned generation) {
  Scheduler& s = *scheduler;
  while (barrier.generation == generation) {
    if (++s.idle > 4 * s.count) {
      fprintf(stderr, "emulator: thread %u of block %u waits at a barrier that others do not reach\n",
              current->thread, current->block->index.x);
      abort();
    }
    yield();
  }
  RACES(leave(&barrier, generation, number(current)));
}

EMULATOR_INTERNAL void wait(Barrier& barrier, unsigned threads, bool ordered) {
#if defined(BECALM_PLANTS)
  if (!ordered) {
    Scheduler& s = *scheduler;
    s.idle = 0;
    unsigned generation = barrier.generation;
    if (++barrier.waiting == threads) {
      barrier.waiting = 0;
      barrier.generation++;
    }
    while (barrier.generation == generation) yield();
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

EMULATOR_INTERNAL void begin_copy(double2* to, const double2* from) {
  Scheduler& s = *scheduler;
  Fiber& fiber = *current;
  if (s.copying.empty()) s.copying.resize(s.count * COPIES);
  if (fiber.copies == COPIES) {
    fprintf(stderr, "emulator: more asynchronous copies of a thread than it keeps\n");
    abort();
  }
  RACES(begun(to, sizeof(double2)));
  s.copying[(&fiber - s.first) * COPIES + fiber.copies++] = {to, from};
}
EMULATOR_INTERNAL Copy copy(unsigned i) { return scheduler->copying[(current - scheduler->first) * COPIES + i]; }
EMULATOR_INTERNAL unsigned copies() { return current->copies; }
EMULATOR_INTERNAL void end_copies() {
  for (unsigned i = 0; i < current->copies; i++) RACES(landed(copy(i).to, sizeof(double2)));
  current->copies = 0;
}

uint64_t clocks() {
  return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

EMULATOR_INTERNAL void run(const Launch& launch, void (*body)(void*), void* context) {
  Scheduler s;
  s.body = body, s.context = context;
  s.shuffled = launch.seed != 0;
  s.random.seed(launch.seed);
  unsigned threads = launch.block.x, count = threads * launch.cluster;
  RACES(launch());
  unsigned blocks = launch.grid.x * launch.grid.y * launch.grid.z;
  size_t bytes = (launch.shared + 255) / 128 * 128;
  std::vector<unsigned char*> memory;
  for (unsigned first = 0; first < blocks; first += launch.cluster) {
    std::vector<Block> cluster(launch.cluster);
    Barrier together;
    RACES(cluster(count));
    s.fibers.assign(count, Fiber());
    s.order.clear();
    for (unsigned b = 0; b < launch.cluster; b++) {
      unsigned i = first + b, x = launch.grid.x, y = launch.grid.y;
      Block& block = cluster[b];
      if (memory.size() < launch.cluster) memory.push_back(static_cast<unsigned char*>(aligned_alloc(128, bytes)));
      block.shared = memory[b], block.shared_bytes = bytes, block.left = threads;
      memset(block.shared, 0xA5, bytes);
      RACES(fresh(block.shared, bytes));
      block.cluster = &together, block.blocks = cluster.data();
      block.rank = b, block.threads = threads, block.cluster_threads = count;
      block.index = dim3(i % x, i / x % y, i / x / y), block.size = launch.block, block.grid = launch.grid;
      for (unsigned t = 0; t < threads; t++) {
        Fiber& fiber = s.fibers[b * threads + t];
        fiber.block = &block, fiber.thread = t;
        if (s.stacks.size() < count) s.stacks.push_back(static_cast<unsigned char*>(aligned_alloc(64, STACK)));
        fiber.stack = s.stacks[b * threads + t], fiber.stack_end = fiber.stack + STACK;
        prepare(fiber, s.stacks[b * threads + t], entry);
        s.order.push_back(b * threads + t);
      }
    }
    s.first = s.fibers.data(), s.sequence = s.order.data(), s.count = count;
    s.alive = count, s.position = 0, s.idle = 0;
    Fiber* outside = current;
    scheduler = &s, current = &s.main;
    switch_to(&s.fibers[s.order[0]]);
    current = outside;
  }
  for (unsigned char* block : memory) free(block);
  for (unsigned char* stack : s.stacks) free(stack);
}

}  // namespace emulator
