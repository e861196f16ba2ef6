// Who reads and writes what, and in which order: races by happens-before, exact for the barriers of the emulator.
//
// Kernels are compiled with -fsanitize=thread, but not linked to its library: the calls that the compiler puts before each
// access come here (`races.cpp`). Every thread has a vector clock; barriers, mbarriers and flags, and nothing else, join clocks:
// not a shuffle, not the emulator's switching. Each four bytes remember their last writer and readers. Two accesses that nothing
// orders, one of them a write, are a race; a launch is ordered behind those that had ended when it began. A block that ends takes
// its shared memory with it, as a write of all of its threads.
//
// What is stored or copied asynchronously is an access of its mbarrier, a thread more in its cluster (`gate`), whose clock is the
// number of the phase: only who has waited for that phase is ordered behind it.
#pragma once
#include <cstddef>

namespace races {
/// Races found so far, and where the first of them was.
extern unsigned long found;
extern const void* first_place;
/// The thread that runs accesses memory.
void access(const void* at, size_t bytes, bool write, bool atomic, const void* place);
/// A race that was found otherwise.
void report(const void* place);

/// Calls `kernels` with all barriers, and then without each of those numbered `first` to `last`. Prints a line for each: the kernels with
/// races, and how many races there were.
void check(int first, int last, void (*kernels)());
/// A launch of `kernels`, while it lives; its end prints the name if there were races. Without a barrier only those launches are wanted
/// that came to it when there were all: the others would do what they did.
struct Visit {
  const char* const name;
  const unsigned long before;
  const bool wanted;
  explicit Visit(const char* name);
  ~Visit();
};
/// The thread that runs begins an asynchronous copy to here, a write that nothing is ordered behind; has waited for it.
void begun(const void* at, size_t bytes);
void landed(const void* at, size_t bytes);
/// A launch begins, or ends.
unsigned launch();
void end_launch(unsigned launch);
/// `threads` threads of a cluster of a launch are there, with their own clocks; all of them are gone.
unsigned group(unsigned launch, unsigned threads);
void over(unsigned group);
/// Memory that is new to its block.
void fresh(const void* at, size_t bytes);
/// `thread` of the running cluster arrives at a barrier of this generation, or leaves it.
void arrive(const void* barrier, unsigned generation, unsigned thread);
void leave(const void* barrier, unsigned generation, unsigned thread);
/// A new mbarrier of the running cluster.
unsigned gate();
/// The thread that runs arrives there; its phase ends; the thread has waited for one that has.
void enter(unsigned gate);
void turn(unsigned gate, unsigned phase);
void pass(unsigned gate);
/// The thread that runs sends bytes to here, from there if it is a copy, which land in a phase.
void send(unsigned gate, unsigned phase, const void* to, const void* from, size_t bytes);
/// The thread that runs raises a flag; has seen it raised.
void release(const void* flag);
void acquire(const void* flag);
/// A thread of the block that has `shared` is done; `last`: all are.
void done(const void* shared, size_t bytes, unsigned thread, bool last);
}  // namespace races
