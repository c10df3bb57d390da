// jemalloc, with which profd is linked: with glibc's malloc, the io thread would wait for the lock
// of a heap that another thread trims, and a few bytes in use would keep the pages that a burst has
// left. profctl, the tests and the builds with a sanitizer have other allocators.

#pragma once

namespace profd {

// Starts threads that return what has been free for some seconds, with the priority of the calling
// thread. Does nothing in a program without jemalloc.
void start_returning_freed_memory() noexcept;

}  // namespace profd
