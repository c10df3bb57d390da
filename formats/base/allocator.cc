#include "formats/base/allocator.h"

#include <cstddef>

#include <malloc.h>

// jemalloc's; null in programs without it.
extern "C" int mallctl(const char* name, void* old_value, std::size_t* old_bytes, void* value,
                       std::size_t bytes) __attribute__((weak));

namespace profd {

void return_freed_memory() noexcept {
  constexpr const char* kAllArenas = "arena.4096.purge";  // MALLCTL_ARENAS_ALL
  if (::mallctl == nullptr) {
    ::malloc_trim(0);
  } else {
    ::mallctl(kAllArenas, nullptr, nullptr, nullptr, 0);
  }
}

void start_returning_freed_memory() noexcept {
  bool yes = true;
  if (::mallctl != nullptr) ::mallctl("background_thread", nullptr, nullptr, &yes, sizeof yes);
}

}  // namespace profd
