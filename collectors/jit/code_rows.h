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
  // Areas of 4 GiB (address >> 32) with rows, each of which needs a table. A runtime uses one or
  // two.
  static constexpr std::size_t kMaxAreas = 16;

  // A function beyond kMaxRows or kMaxAreas has no rows: frame pointers are followed there. False
  // where it is beyond kMaxAreas.
  bool set(const JitUnwindRows& function);
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
  std::map<std::uint32_t, std::size_t> areas_;        // the number of functions of each
  std::size_t rows_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace profd
