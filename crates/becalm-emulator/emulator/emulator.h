// CUDA on a CPU: every thread of a cluster of blocks is a fiber; all that our kernels use of CUDA, and nothing else.
//
// Fibers take turns and switch only where they wait, so each runs undisturbed between two waits: the order within
// such an interval can be drawn at random (`Launch::seed`). A block keeps its turn while its barriers let it go on. Shared memory comes fresh and full of 0xA5 for each block.
// One cluster runs after another, until all threads that live wait: then the next one begins beside them (`Pool`). Threads that
// wait for ever are found. `races.h` finds what barriers do not order. Not modelled: memory order inside an interval.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#if defined(__SANITIZE_THREAD__)
#define EMULATOR_INTERNAL __attribute__((no_sanitize("thread"), noinline))
#else
#define EMULATOR_INTERNAL
#endif

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(16) double2 {
  double x, y;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
__forceinline__ double2 make_double2(double x, double y) { return {x, y}; }
__forceinline__ int2 make_int2(int x, int y) { return {x, y}; }
__forceinline__ int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
__forceinline__ uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
__forceinline__ uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace emulator {

struct Barrier {
  unsigned waiting = 0, generation = 0;
};

struct Warp {
  Barrier barrier;
  uint64_t words[2][32];
};

struct Cluster;
struct Block {
  unsigned char* shared;
  Barrier barriers[16];
  Warp warps[32];
  Barrier* cluster;
  Cluster* of;
  Block* blocks;
  unsigned group;  // the number of the cluster in the race check
  unsigned rank, threads, cluster_threads;
  unsigned left;  // threads that have not returned
  size_t first;   // its first fiber in the order of turns; the others follow
  bool moved;     // a barrier of the block has let its threads go on since their last turn
  size_t shared_bytes;
  dim3 index, size, grid;
};

/// An asynchronous copy of 16 bytes that is under way.
struct Copy {
  double2* to;
  const double2* from;
};
/// The reason why a thread waits.
enum class Wait { BARRIER, PHASE, FLAG };
struct Fiber {
  Block* block = nullptr;
  unsigned thread = 0;
  unsigned exchanges = 0, arrived = 0, copies = 0, reads = 0;
  /// Groups of its copies, and the number of copies at the end of each.
  unsigned groups = 0, ends[16];
  Wait wait = Wait::BARRIER;
  bool done = false;
  /// The barrier at which it waits, while that is in this generation.
  const Barrier* at = nullptr;
  unsigned generation = 0;
  void* stack_pointer = nullptr;
  /// Its stack, from and to.
  const unsigned char *stack = nullptr, *stack_end = nullptr;
};

/// Which barrier is left out of the kernels, by its number; 0: none. Only for the race check, which notes what the kernels ask.
struct Plant {
  int number = 0;
  bool operator==(int barrier) const;
};
extern Plant plant;

/// The fiber that runs; one emulator for each thread of the process.
extern __thread Fiber* current;

struct Launch {
  dim3 grid, block;
  unsigned cluster = 1;
  size_t shared = 0;
  /// 0: threads in order; else the order of each barrier interval is drawn from this.
  uint64_t seed = 0;
};

/// What every thread does.
using Body = void(void* context);
/// A context: a kernel, and a pointer to each of its arguments, as for the driver.
struct Call {
  void (*kernel)();
  void** arguments;
};
/// `body(context)` as every thread of a grid.
struct Work {
  Launch shape;
  Body* body;
  void* context;
  /// The caller's name for it.
  uint64_t ticket;
};
/// Launches that run at once.
struct Pool;
Pool* make_pool();
void end_pool(Pool* pool);
void add(Pool& pool, const Work& work);
/// Nothing is left; a launch has ended; all threads wait for what is not there; the kernel has made a mistake.
enum class Outcome { DONE, ENDED, STUCK, FAILED };
/// Runs launches until one of these is so. `ticket`: the launch that has ended.
Outcome go(Pool& pool, uint64_t* ticket);
/// Why the last outcome was STUCK or FAILED.
const char* why(const Pool& pool);

/// Runs one launch. Ends the process if that does not end.
void run(const Launch& launch, Body* body, void* context);
/// Arrives at a barrier of `threads` fibers; its generation.
unsigned arrive(Barrier& barrier, unsigned threads);
/// Waits until all have arrived that `arrive` counted this fiber with.
void await(Barrier& barrier, unsigned generation);
/// Both; `ordered` says whether memory is ordered by it.
void wait(Barrier& barrier, unsigned threads, bool ordered = true);
/// The words of all lanes of a warp. They stay until this lane has come here twice more.
const uint64_t* exchange(uint64_t word);
/// An asynchronous copy is begun; the `i`-th that this thread began; how many there are; the first `count` have landed.
void begin_copy(double2* to, const double2* from);
Copy copy(unsigned i);
unsigned copies();
void end_copies(unsigned count);
/// A group of copies ends; how many copies are in all but the last `left` groups.
void commit_copies();
unsigned copies_but(unsigned left);
/// Some clock.
uint64_t clocks();

// Reads of the emulator's own state, kept from the sanitizer.
EMULATOR_INTERNAL inline dim3 thread_index() { return dim3(current->thread); }
EMULATOR_INTERNAL inline dim3 block_index() { return current->block->index; }
EMULATOR_INTERNAL inline dim3 block_size() { return current->block->size; }
EMULATOR_INTERNAL inline dim3 grid_size() { return current->block->grid; }
EMULATOR_INTERNAL inline unsigned char* shared() { return current->block->shared; }
EMULATOR_INTERNAL inline unsigned rank() { return current->block->rank; }
EMULATOR_INTERNAL inline uint64_t exchanged(uint64_t word, unsigned lane) { return exchange(word)[lane]; }

}  // namespace emulator

#define threadIdx (emulator::thread_index())
#define blockIdx (emulator::block_index())
#define blockDim (emulator::block_size())
#define gridDim (emulator::grid_size())

EMULATOR_INTERNAL inline void __syncthreads() {
  emulator::Block* block = emulator::current->block;
  emulator::wait(block->barriers[0], block->threads);
}
EMULATOR_INTERNAL inline void __syncwarp(unsigned = ~0u) {
  emulator::Fiber* fiber = emulator::current;
  emulator::wait(fiber->block->warps[fiber->thread / 32].barrier, 32);
}
/// Widths other than 4 and 8 bytes are not used.
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  uint64_t word = 0;
  memcpy(&word, &value, sizeof value);
  word = emulator::exchanged(word, (emulator::thread_index().x ^ mask) % 32);
  memcpy(&value, &word, sizeof value);
  return value;
}
template <class T>
__forceinline__ T __ldg(const T* at) {
  return *at;
}
template <class T>
__forceinline__ T __ldcg(const T* at) {
  return *at;
}
__forceinline__ unsigned long long atomicAdd(unsigned long long* at, unsigned long long value) {
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
__forceinline__ unsigned long long atomicCAS(unsigned long long* at, unsigned long long wanted, unsigned long long value) {
  __atomic_compare_exchange_n(at, &wanted, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return wanted;
}
__forceinline__ unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
__forceinline__ long long __double_as_longlong(double x) {
  long long bits;
  memcpy(&bits, &x, 8);
  return bits;
}
__forceinline__ double __longlong_as_double(long long bits) {
  double x;
  memcpy(&x, &bits, 8);
  return x;
}
__forceinline__ int __double2loint(double x) { return int(unsigned(__double_as_longlong(x))); }
__forceinline__ int __double2hiint(double x) { return int(unsigned((unsigned long long)__double_as_longlong(x) >> 32)); }
__forceinline__ double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)((unsigned long long)unsigned(high) << 32 | unsigned(low)));
}
__forceinline__ long long __double2ll_rn(double x) { return llrint(x); }
__forceinline__ double __ll2double_rn(long long x) { return double(x); }

// The same as `device.cuh` defines for a GPU.
#include "asynchronous.h"
__forceinline__ void store_through(double2* at, double2 value) { *at = value; }
__forceinline__ double2 load_once(const double2* at) { return *at; }
__forceinline__ double load_once(const double* at) { return *at; }
__forceinline__ void fetch_ahead(const void*) {}
template <int COUNT>
__forceinline__ void grow_registers() {}
template <int COUNT>
__forceinline__ void shrink_registers() {}
__forceinline__ unsigned reversed(unsigned x) {
  x = (x & 0x55555555) << 1 | (x >> 1 & 0x55555555);
  x = (x & 0x33333333) << 2 | (x >> 2 & 0x33333333);
  x = (x & 0x0F0F0F0F) << 4 | (x >> 4 & 0x0F0F0F0F);
  return __builtin_bswap32(x);
}
__forceinline__ unsigned long long read_atomic(const unsigned long long* at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
template <class T>
__forceinline__ T* shared_memory() {
  return reinterpret_cast<T*>(emulator::shared());
}
__forceinline__ unsigned cluster_rank() { return emulator::rank(); }
EMULATOR_INTERNAL inline void cluster_arrive() {
  emulator::Block* block = emulator::current->block;
  emulator::current->arrived = emulator::arrive(*block->cluster, block->cluster_threads);
}
EMULATOR_INTERNAL inline void cluster_wait() {
  emulator::await(*emulator::current->block->cluster, emulator::current->arrived);
}
EMULATOR_INTERNAL inline void named_barrier(unsigned id, unsigned threads) {
  emulator::wait(emulator::current->block->barriers[id], threads);
}
/// Lane 4i + q has a[i][q], b[q][i], d[i][2q] and d[i][2q + 1]; sums in the order of k.
EMULATOR_INTERNAL inline void multiply_8x8x4(double& d0, double& d1, double a, double b) {
  const unsigned lane = emulator::current->thread % 32, i = lane / 4, q = lane % 4;
  double row[4], columns[2][4];
  uint64_t word;
  memcpy(&word, &a, 8);
  memcpy(row, emulator::exchange(word) + 4 * i, 32);
  memcpy(&word, &b, 8);
  memcpy(columns, emulator::exchange(word) + 8 * q, 64);
  for (int k = 0; k < 4; k++) d0 = fma(row[k], columns[0][k], d0), d1 = fma(row[k], columns[1][k], d1);
}
/// Lane 4i + q has a[i][q] and a[i + 8][q], b[q][i], d[i][2q], d[i][2q + 1], d[i + 8][2q] and d[i + 8][2q + 1].
EMULATOR_INTERNAL inline void multiply_16x8x4(double* d, double a0, double a1, double b) {
  multiply_8x8x4(d[0], d[1], a0, b);
  multiply_8x8x4(d[2], d[3], a1, b);
}
/// Lane 4g + q has the bytes 4q and 4q + 16 and the three behind each: of a's rows g (x, z) and g + 8 (y, w), of b's column g (b0, b1);
/// and d[g][2q], d[g][2q + 1], d[g + 8][2q] and d[g + 8][2q + 1].
EMULATOR_INTERNAL inline void multiply_16x8x32(int* d, uint4 a, unsigned b0, unsigned b1) {
  const unsigned lane = emulator::current->thread % 32, g = lane / 4, q = lane % 4;
  int8_t rows[2][32];
  uint8_t columns[2][32];
  memcpy(rows[0], emulator::exchange(uint64_t(a.z) << 32 | a.x) + 4 * g, 32);
  memcpy(rows[1], emulator::exchange(uint64_t(a.w) << 32 | a.y) + 4 * g, 32);
  memcpy(columns, emulator::exchange(uint64_t(b1) << 32 | b0) + 8 * q, 64);
  for (unsigned i = 0; i < 4; i++) {
    int sum = 0;
    for (unsigned k = 0; k < 32; k++) sum += rows[i / 2][k] * columns[i % 2][k];
    d[i] = int(unsigned(d[i]) + unsigned(sum));
  }
}
/// Copied when it is waited for, at the latest when the thread is done: whoever reads before sees that.
inline void copy_async(double2* to, const double2* from) { emulator::begin_copy(to, from); }
inline void await_first_copies(unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    const emulator::Copy copy = emulator::copy(i);
    *copy.to = *copy.from;
  }
  emulator::end_copies(count);
}
inline void await_copies() { await_first_copies(emulator::copies()); }
inline void commit_copies() { emulator::commit_copies(); }
template <int LEFT>
inline void await_copies_but() {
  await_first_copies(emulator::copies_but(LEFT));
}
inline uint64_t clocks() { return emulator::clocks(); }
template <class T>
EMULATOR_INTERNAL T* map_shared(T* at, unsigned rank) {
  emulator::Block* block = emulator::current->block;
  ptrdiff_t offset = reinterpret_cast<const unsigned char*>(at) - block->shared;
  return reinterpret_cast<T*>(block->blocks[rank].shared + offset);
}
