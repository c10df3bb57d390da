// Rows beside libdw's CFI, at every address at which a row of either side begins.

#pragma once

#include <cstddef>
#include <string>

#include "formats/unwind/unwind_table.h"
#include "tests/formats/unwind/libdw_cfi.h"

namespace profd::test {

struct CfiTally {
  std::size_t files = 0;
  std::size_t functions = 0;
  std::size_t addresses = 0;
  std::size_t unknown = 0;         // libdw knows the frame, we don't
  std::size_t lost_registers = 0;  // libdw knows rbp or rbx, we don't
  std::size_t refused = 0;         // the other way round: libdw refuses the function
};

// Fails the test at the first difference. `name` says what is compared.
void compare_with_libdw(const std::string& name, const LibdwCfi& libdw,
                        const UnwindTableView& table, CfiTally& tally);

}  // namespace profd::test
