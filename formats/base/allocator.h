// What the programs ask of their allocator. profd is linked with jemalloc: with glibc's, the io
// thread would wait for the lock of a heap that another thread trims, and a few bytes in use would
// keep the pages that a burst has left. profctl and the tests have glibc's, and take no libraries
// for it.

#pragma once

namespace profd {

// Returns what is free to the system. Takes milliseconds, and locks of the heap.
void return_freed_memory() noexcept;

// Starts a thread that returns what has been free for some seconds, with the priority of the
// calling thread. Does nothing in a program without jemalloc.
void start_returning_freed_memory() noexcept;

}  // namespace profd
