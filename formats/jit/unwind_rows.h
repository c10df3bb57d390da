// The unwind rows of JIT code, from the eh_frame in a jitdump's UNWINDING_INFO record.
//
// Rows have addresses, not file offsets. CFI that no rule can express becomes an unknown row, as in
// files (cfi_tables.h): there the frame pointer is followed.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/base/result.h"
#include "formats/jit/jitdump_reader.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

// The rows of one function, sorted by UnwindRow::offset, which is an address here. The last row
// holds up to `end`.
struct JitUnwindRows {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::vector<UnwindRow> rows;
};

// The limit of one record; further rows are not read.
inline constexpr std::size_t kMaxJitUnwindRows = 65'536;

// Reads the rows of the code that the record belongs to or, where code_bytes is 0, of all functions
// that its FDEs have, with absolute addresses (LLVM's ORC). The functions are in no order, and may
// overlap. kMalformed where the record has no unwind data for the code.
[[nodiscard]] Result<std::vector<JitUnwindRows>> read_jit_unwind_rows(std::string_view record,
                                                                      const JitDumpState& state,
                                                                      std::uint64_t code_address,
                                                                      std::uint64_t code_bytes);

}  // namespace profd
