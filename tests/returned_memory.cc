#include "tests/returned_memory.h"

#include <sys/prctl.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>

namespace profd::test {
namespace {

struct ReturnedMemory {
  std::mutex mutex;
  std::map<std::string, int> times;
};

// Is never destroyed: detached threads may use it at the end of the program.
ReturnedMemory& returned_memory() {
  static ReturnedMemory& returned = *new ReturnedMemory;
  return returned;
}

void count_this_thread() {
  std::array<char, 16> name{};
  ::prctl(PR_GET_NAME, name.data());
  ReturnedMemory& returned = returned_memory();
  const std::lock_guard lock(returned.mutex);
  ++returned.times[name.data()];
}

}  // namespace

int times_returned(const std::string& thread) {
  ReturnedMemory& returned = returned_memory();
  const std::lock_guard lock(returned.mutex);
  return returned.times[thread];
}

bool wait_until_returned(const std::string& thread, int times) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (times_returned(thread) < times) {
    if (std::chrono::steady_clock::now() >= limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace profd::test

extern "C" int mallctl(const char* name, void* /*old_value*/, std::size_t* /*old_bytes*/,
                       void* /*value*/, std::size_t /*bytes*/) {
  if (std::string_view(name) == "thread.tcache.flush") profd::test::count_this_thread();
  return 0;
}
