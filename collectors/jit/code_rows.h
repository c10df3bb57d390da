// The unwind rows of one address space's made code, as they stand now: by address, none twice.
// Newer code takes the rows of what lay there away. Of the io thread.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/jit/unwind_rows.h"

namespace profd {

class JitCodeRows {
 public:
  static constexpr std::size_t kMaxRows = std::size_t{1} << 18;

  // What doesn't fit has no rows: then frame pointers are followed there.
  void set(const JitUnwindRows& function);
  void erase(std::uint64_t start, std::uint64_t end);
  // Those of `others` that lie where there is nothing here.
  void add_missing(const JitCodeRows& others);

  [[nodiscard]] bool empty() const { return functions_.empty(); }
  [[nodiscard]] std::size_t memory_bytes() const;
  // Grows with each change.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }

  // A table (unwind_table.h) for each 4 GiB of addresses, by address >> 32. Offsets are the other
  // half of the addresses.
  [[nodiscard]] std::map<std::uint32_t, std::string> tables() const;

 private:
  std::map<std::uint64_t, JitUnwindRows> functions_;  // by start
  std::size_t rows_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace profd
