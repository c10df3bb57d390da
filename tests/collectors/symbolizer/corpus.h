// The corpus that tests/collectors/symbolizer/corpus/build compiles, and what the tool chains' own
// symbolizers say of it.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectors/symbolizer/dwarf_frames.h"
#include "formats/base/unique_fd.h"

namespace profd::test {

[[nodiscard]] std::string corpus_path(const std::string& name);
[[nodiscard]] UniqueFd open_for_reading(const std::string& path);  // invalid: it cannot be opened

// Addresses in the executable segment, in a random order that is the same every time.
[[nodiscard]] std::vector<std::uint64_t> random_addresses(const std::string& path,
                                                          std::size_t count);

// The function is empty, and the line 0, where they are not known.
struct OracleFrame {
  std::string function;
  std::string file;
  unsigned long line = 0;

  friend auto operator<=>(const OracleFrame&, const OracleFrame&) = default;
};
using OracleFrames = std::vector<OracleFrame>;  // of one address, the innermost first

// For each address, in their order.
[[nodiscard]] std::vector<OracleFrames> frames_of_llvm(const std::string& path,
                                                       std::span<const std::uint64_t> addresses);
[[nodiscard]] std::vector<OracleFrames> frames_of_addr2line(
    const std::string& path, std::span<const std::uint64_t> addresses);

// An answer as an oracle prints it.
[[nodiscard]] OracleFrames as_oracle(const DwarfAddress& answer);

// The share of answers that equal the oracle's. Prints the first ones that do not.
[[nodiscard]] double equal_share(const std::vector<DwarfAddress>& answers,
                                 const std::vector<OracleFrames>& oracle);

}  // namespace profd::test
