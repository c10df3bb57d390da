// The names of the addresses of a gperftools profile, which has none, by the files that it names.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/base/result.h"
#include "formats/profile/profile.h"

namespace profd {

struct NamedAddress {
  std::string name{};  // empty: the file has none
  std::string file{};  // of the source; empty: unknown
  std::uint32_t line = 0;

  friend bool operator==(const NamedAddress&, const NamedAddress&) = default;
};

// The names of `addresses` in a process that has mapped the open file so: one for each, in their
// order. Inlined functions are not looked for.
[[nodiscard]] Result<std::vector<NamedAddress>> find_mapped_names(
    int fd, std::uint64_t start, std::uint64_t file_offset,
    std::span<const std::uint64_t> addresses);

}  // namespace profd
