#include "collectors/host/idle_thread.h"

#include <cstddef>

#include "collectors/host/thread_priority.h"

// jemalloc's; null in programs without it.
extern "C" int mallctl(const char* name, void* old_value, std::size_t* old_bytes, void* value,
                       std::size_t bytes) __attribute__((weak));

namespace profd {

void return_memory_of_thread() noexcept {
  if (::mallctl == nullptr) return;
  const PriorityOfIoThread priority;
  ::mallctl("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
}

}  // namespace profd
