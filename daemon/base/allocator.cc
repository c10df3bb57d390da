#include "daemon/base/allocator.h"

#include <cstddef>

// jemalloc's; null in programs without it.
extern "C" int mallctl(const char* name, void* old_value, std::size_t* old_bytes, void* value,
                       std::size_t bytes) __attribute__((weak));

namespace profd {

void start_returning_freed_memory() noexcept {
  bool yes = true;
  if (::mallctl != nullptr) ::mallctl("background_thread", nullptr, nullptr, &yes, sizeof yes);
}

}  // namespace profd
