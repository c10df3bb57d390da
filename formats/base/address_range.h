// Ranges and pages of addresses of a process, or of an image that stands for its code.

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

inline constexpr std::uint64_t kPage = 4096;

// The start of the page of an address.
[[nodiscard]] constexpr std::uint64_t page_of(std::uint64_t address) {
  return address / kPage * kPage;
}

}  // namespace profd
