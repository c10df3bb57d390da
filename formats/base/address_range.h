// A range of addresses of a process, or of an image that stands for its code.

#pragma once

#include <compare>
#include <cstdint>

namespace profd {

// [start, end)
struct AddressRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;

  friend auto operator<=>(const AddressRange&, const AddressRange&) = default;
};

}  // namespace profd
