// The unwind rows of the JIT code of one code map, as it is now. Functions do not overlap: newer
// code removes the rows of the code that lay there. For the io thread.

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "formats/jit/unwind_rows.h"

namespace profd {

class JitCodeRows {
 public:
  static constexpr std::size_t kMaxRows = std::size_t{1} << 18;

  // A function beyond kMaxRows has no rows: frame pointers are followed there.
  void set(const JitUnwindRows& function);
  void erase(std::uint64_t start, std::uint64_t end);
  // Adds the functions of `others` that overlap none of these.
  void add_missing(const JitCodeRows& others);

  [[nodiscard]] std::size_t memory_bytes() const;
  // A count that grows with each change.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }

  // One encoded table (formats/unwind/unwind_table.h) for each 4 GiB of addresses, by address
  // >> 32. The offsets in a table are the lower halves of the addresses.
  [[nodiscard]] std::map<std::uint32_t, std::string> tables() const;

 private:
  std::map<std::uint64_t, JitUnwindRows> functions_;  // by start
  std::size_t rows_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace profd
