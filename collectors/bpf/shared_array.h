// The value of a BPF map with BPF_F_MMAPABLE as memory, which the programs see at once.

#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <string>

#include "formats/base/result.h"

namespace profd {

struct UnmapArray {
  std::size_t bytes = 0;
  void operator()(void* memory) const { ::munmap(memory, bytes); }
};
// An array of T. The map may be closed before it.
template <class T>
using SharedArray = std::unique_ptr<T, UnmapArray>;

// `count` values of T are all values of the map, or less. `what` is for the error: "could not map
// the unwind rules".
template <class T>
[[nodiscard]] Result<SharedArray<T>> map_array(int fd, std::size_t count, const char* what) {
  const std::size_t bytes = count * sizeof(T);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return fail_errno(std::string("could not map ") + what);
  return SharedArray<T>(static_cast<T*>(memory), UnmapArray{bytes});
}

}  // namespace profd
