// Barriers in shared memory, what lands behind them, and flags: `asynchronous.h`.
#include "scheduler.h"

namespace emulator {

namespace {

/// Upper bits of the word of an mbarrier; the others are its number in its cluster.
constexpr uint64_t MARK = uint64_t(0xBA44) << 48;
/// Bytes that an mbarrier can expect, and arrivals that it can count.
constexpr int64_t MOST = (1 << 20) - 1;
/// Reads of flags behind which a thread that does nothing else lets others run.
constexpr unsigned READS = 1000;

/// The mbarrier at a place in the shared memory of the running cluster.
Mbarrier& find(const void* at) {
  std::deque<Mbarrier>& all = current->block->of->mbarriers;
  if (reinterpret_cast<uintptr_t>(at) % 8 != 0) fail("an mbarrier that is not aligned to 8 bytes");
  uint64_t word;
  memcpy(&word, at, 8);
  const uint64_t i = word ^ MARK;
  if (i >= all.size() || all[i].at != at) fail("an mbarrier that was not initialised, or was overwritten");
  return all[i];
}

/// The same of the running block.
Mbarrier& find_own(const void* at) {
  Mbarrier& m = find(at);
  if (m.block != current->block) fail("an mbarrier of another block, where only the block's own can be used");
  RACES(access(at, 8, true, true, __builtin_return_address(0)));
  return m;
}

/// The block of the running cluster whose shared memory holds these bytes.
const Block& holder(const unsigned char* at, size_t bytes) {
  const Block* own = current->block;
  for (const Block& block : own->of->blocks) {
    if (at >= block.shared && at + bytes <= block.shared + block.shared_bytes) return block;
  }
  fail("an asynchronous access outside of the cluster's shared memory");
}

/// Ends the phase if nothing is missing.
void turn(Mbarrier& m) {
  scheduler->idle = 0;
  if (m.missing > 0 || m.bytes != 0) return;
  RACES(turn(m.gate, m.phase));
  m.phase++;
  m.missing = m.arrivals;
  if (m.block == current->block) current->block->moved = true;
}

void arrive_at(Mbarrier& m, int64_t bytes) {
  if (m.missing == 0) fail("more arrivals than an mbarrier counts");
  RACES(enter(m.gate));
  m.bytes += bytes;
  if (m.bytes > MOST) fail("more bytes than an mbarrier can expect");
  m.missing--;
  turn(m);
}

/// The `i`-th store or copy that is under way lands.
void land(Mbarrier& m, size_t i) {
  const Landing landing = m.under_way[i];
  m.under_way.erase(m.under_way.begin() + i);
  current->block->of->under_way--;
  if (landing.from) memcpy(landing.to, landing.from, landing.bytes);
  else memcpy(landing.to, &landing.value, sizeof landing.value);
  m.bytes -= landing.bytes;
  if (m.bytes < -MOST) fail("more bytes than an mbarrier can expect");
  if (landing.phase != m.phase) {
#if defined(BECALM_PLANTS)
    races::report(landing.to);
#else
    fail("bytes land in a later phase of an mbarrier than they were sent in: it expects too few, or a sender is a round ahead");
#endif
  }
  turn(m);
}

/// Puts a store or copy under way.
void issue(Mbarrier& m, Landing landing) {
  landing.phase = m.phase;
  RACES(send(m.gate, m.phase, landing.to, landing.from, landing.bytes));
  m.under_way.push_back(landing);
  current->block->of->under_way++;
  scheduler->idle = 0;
  if (scheduler->shuffled && scheduler->random() % 4 == 0) land(m, m.under_way.size() - 1);
}

/// Some of what is under way lands, because somebody waits for it; all without a seed. Whether something has.
bool land_for(Mbarrier& m) {
  Pool& s = *scheduler;
  if (m.under_way.empty()) return false;
  if (s.shuffled) {
    land(m, s.random() % m.under_way.size());
  } else {
    while (!m.under_way.empty()) land(m, 0);
  }
  return true;
}

}  // namespace

EMULATOR_INTERNAL void land_some() {
  Pool& s = *scheduler;
  Cluster& cluster = *current->block->of;
  if (cluster.under_way == 0 || s.random() % 4 != 0) return;
  const size_t count = cluster.mbarriers.size(), first = s.random() % count;
  for (size_t i = 0; i < count; i++) {
    Mbarrier& m = cluster.mbarriers[(first + i) % count];
    if (!m.under_way.empty()) return land(m, s.random() % m.under_way.size());
  }
}

}  // namespace emulator

using namespace emulator;

void mbarrier_init(unsigned long long* at, unsigned arrivals) {
  std::deque<Mbarrier>& all = current->block->of->mbarriers;
  const unsigned char* place = reinterpret_cast<unsigned char*>(at);
  if (&holder(place, 8) != current->block) fail("an mbarrier in the shared memory of another block");
  if (reinterpret_cast<uintptr_t>(at) % 8 != 0) fail("an mbarrier that is not aligned to 8 bytes");
  if (arrivals == 0 || arrivals > MOST) fail("an mbarrier of too few or too many arrivals");
  RACES(access(at, 8, true, false, __builtin_return_address(0)));
  all.emplace_back();
  Mbarrier& m = all.back();
  m.at = at, m.block = current->block, m.arrivals = m.missing = arrivals;
#if defined(BECALM_PLANTS)
  m.gate = races::gate();
#endif
  *at = MARK ^ (all.size() - 1);
}

void mbarrier_arrive(unsigned long long* at) { arrive_at(find_own(at), 0); }

void mbarrier_expect(unsigned long long* at, unsigned bytes) { arrive_at(find_own(at), bytes); }

void mbarrier_wait(unsigned long long* at, unsigned parity) {
  if (parity > 1) fail("a parity that is neither 0 nor 1");
  Mbarrier& m = find_own(at);
  while (m.phase % 2 == parity) {
    const bool landed = land_for(m);
    if (m.phase % 2 != parity) break;
    // What is left under way is no reason to give up.
    if (landed) yield();
    else blocked(Wait::PHASE);
  }
  RACES(pass(m.gate));
}

Remote remote(const void* at, unsigned rank) {
  Block* block = current->block;
  const ptrdiff_t offset = static_cast<const unsigned char*>(at) - block->shared;
  if (rank >= block->of->blocks.size()) fail("a block that the cluster has not");
  if (offset < 0 || size_t(offset) >= block->shared_bytes) fail("a remote place outside of the block's shared memory");
  return block->blocks[rank].shared + offset;
}

void store_remote(Remote to, double2 value, Remote barrier) {
  Mbarrier& m = find(barrier);
  const Block& block = holder(to, sizeof value);
  if (m.block != &block) fail("a remote store and its mbarrier are in different blocks");
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0) fail("a remote store that is not aligned to 16 bytes");
#if defined(BECALM_PLANTS)
  races::access(barrier, 8, true, true, __builtin_return_address(0));
  if (block.left == 0) return races::report(to);
#else
  if (block.left == 0) fail("a remote store to a block that has ended");
#endif
  issue(m, {to, nullptr, value, sizeof value, 0});
}

void bulk_copy(void* to, const void* from, unsigned bytes, unsigned long long* barrier) {
  Mbarrier& m = find_own(barrier);
  unsigned char* const place = static_cast<unsigned char*>(to);
  if (&holder(place, bytes) != current->block) fail("a bulk copy to another block");
  const uintptr_t aligned = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes;
  if (aligned % 16 != 0 || bytes == 0) fail("a bulk copy that is not aligned to 16 bytes");
  issue(m, {place, from, double2(), bytes, 0});
}

unsigned read_flag(const unsigned* at) {
  RACES(access(at, 4, true, true, __builtin_return_address(0)));
  // A loop of the kernel's own around this must not keep others from raising it.
  if (++current->reads > READS) blocked(Wait::FLAG);
  return *static_cast<const volatile unsigned*>(at);
}

// An await that acquires what raises and counts have released. The memory model promises that of a release and an acquire, which
// neither the relaxed reads nor a count are; `device.cuh` says why the hardware keeps it.
void await_flag(const unsigned* at, unsigned wanted) {
  while (*static_cast<const volatile unsigned*>(at) < wanted) blocked(Wait::FLAG);
  RACES(acquire(at));
  RACES(access(at, 4, true, true, __builtin_return_address(0)));
}

void raise_flag(unsigned* at, unsigned by) {
  RACES(access(at, 4, true, true, __builtin_return_address(0)));
  RACES(release(at));
  *at += by;
  scheduler->idle = 0;
}

void count_flag(unsigned* at, unsigned by) { raise_flag(at, by); }
