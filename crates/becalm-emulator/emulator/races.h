// Who reads and writes what, and in which order: races by happens-before, exact for the barriers of the emulator.
//
// Kernels are compiled with -fsanitize=thread, but not linked to its library: the calls that the compiler puts before each
// access come here (`races.cpp`). Every thread has a vector clock; barriers, and nothing else, join clocks: not a shuffle, not
// the emulator's switching. Each four bytes remember their last writer and readers. Two accesses of one launch that no barrier
// orders, one of them a write, are a race; blocks of different clusters are never ordered. A block that ends takes its shared
// memory with it, as a write of all of its threads.
#pragma once
#include <cstddef>

namespace races {
/// Races found so far, and where the first of them was.
extern unsigned long found;
extern const void* first_place;
/// The thread that runs begins an asynchronous copy to here, a write that nothing is ordered behind; has waited for it.
void begun(const void* at, size_t bytes);
void landed(const void* at, size_t bytes);
/// A launch begins; its threads are unordered but for barriers.
void launch();
/// `threads` threads of the next cluster are there, with their own clocks.
void cluster(unsigned threads);
/// Memory that is new to its block.
void fresh(const void* at, size_t bytes);
/// `thread` arrives at a barrier of this generation, or leaves it.
void arrive(const void* barrier, unsigned generation, unsigned thread);
void leave(const void* barrier, unsigned generation, unsigned thread);
/// A thread of the block that has `shared` is done; `last`: all are.
void done(const void* shared, size_t bytes, unsigned thread, bool last);
}  // namespace races
