// What lands later than it is issued: barriers in shared memory, stores to other blocks, bulk copies, and flags between
// kernels that run at once. Included by `emulator.h`, under the names of `device.cuh`.
//
// A store or copy lands at a time drawn at random between its issue and the moment somebody waits for its mbarrier; without a
// seed then, as late as possible. Not modelled: the proxies, so a missing `async_fence` shows on a GPU alone; how many blocks a
// GPU holds at once.
#pragma once

/// A place in the shared memory of a block of the cluster.
typedef unsigned char* Remote;

void mbarrier_init(unsigned long long* at, unsigned arrivals);
inline void mbarriers_ready() {}
void mbarrier_arrive(unsigned long long* at);
void mbarrier_expect(unsigned long long* at, unsigned bytes);
void mbarrier_wait(unsigned long long* at, unsigned parity);
Remote remote(const void* at, unsigned rank);
void store_remote(Remote to, double2 value, Remote barrier);
void bulk_copy(void* to, const void* from, unsigned bytes, unsigned long long* barrier);
inline void async_fence() {}
inline void shared_async_fence() {}
unsigned read_flag(const unsigned* at);
void await_flag(const unsigned* at, unsigned wanted);
void raise_flag(unsigned* at, unsigned by);
void count_flag(unsigned* at, unsigned by);
