// Lists of varints (protobuf's packed numbers), compared as they lie in a file.
//
// The samples of a profile are sorted by their stacks from the root on, and each list has the leaf
// first. So most of a list is the end of the list before it, which needs no second look.

#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace profd {

// How many bytes two texts have in common at their ends.
[[nodiscard]] inline std::size_t common_end(std::string_view a, std::string_view b) {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
  const std::size_t most = std::min(a.size(), b.size());
  a.remove_prefix(a.size() - most);
  b.remove_prefix(b.size() - most);
  std::size_t left = most;
  while (left >= kWordBytes) {
    std::uint64_t of_a = 0;
    std::uint64_t of_b = 0;
    std::memcpy(&of_a, a.data() + left - kWordBytes, kWordBytes);
    std::memcpy(&of_b, b.data() + left - kWordBytes, kWordBytes);
    if (of_a != of_b) {
      return most - left + static_cast<std::size_t>(std::countl_zero(of_a ^ of_b)) / 8;
    }
    left -= kWordBytes;
  }
  while (left > 0 && a[left - 1] == b[left - 1]) --left;
  return most - left;
}

// The same of two lists of varints, of which each number is whole: the bytes begin with a number of
// both lists.
[[nodiscard]] inline std::size_t common_last_numbers(std::string_view a, std::string_view b) {
  const auto is_last_byte = [](char byte) { return static_cast<unsigned char>(byte) < 0x80; };
  const auto begins_number = [&](std::string_view list, std::size_t bytes) {
    return bytes == list.size() || is_last_byte(list[list.size() - bytes - 1]);
  };
  std::size_t common = common_end(a, b);
  bool begins = begins_number(a, common) && begins_number(b, common);
  while (!begins && common > 0) {
    begins = is_last_byte(a[a.size() - common]);
    --common;
  }
  return common;
}

}  // namespace profd
