// Addresses of a process, or of an image that stands for it.

#pragma once

#include <compare>
#include <cstdint>

namespace profd {

// Half open: `end` is the first address behind it.
struct AddressRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;

  friend auto operator<=>(const AddressRange&, const AddressRange&) = default;
};

}  // namespace profd
