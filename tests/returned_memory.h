// How often each thread of a test program returned its memory (collectors/host/idle_thread.h).
// returned_memory.cc has the function of jemalloc that is called, since the allocator of a test
// program is another one.

#pragma once

#include <string>

namespace profd::test {

// Of the threads that had this name (prctl(2)) at that time.
[[nodiscard]] int times_returned(const std::string& thread);

// Waits until it is as many times. False: it hangs.
[[nodiscard]] bool wait_until_returned(const std::string& thread, int times);

}  // namespace profd::test
