// The unwind rows of code made at run time, from the eh_frame in a jitdump's UNWINDING_INFO record.
//
// Rows are by address, not by file offset. What can't be told in a rule becomes an unknown row, as
// with files (cfi_tables.h): there the frame pointer is followed.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/base/result.h"
#include "formats/jit/jitdump_reader.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

// The rows of one function: sorted by address (UnwindRow::offset is one here), the first at
// `start`; the last holds up to `end`.
struct JitUnwindRows {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::vector<UnwindRow> rows;
};

// Of one record; more isn't read.
inline constexpr std::size_t kMaxJitUnwindRows = 65'536;

// Of the code that a record belongs to, if code_bytes isn't 0; else of whatever functions its FDEs
// name, by absolute addresses (LLVM's ORC). In no order, and they may overlap. kMalformed for what
// is no unwind data.
[[nodiscard]] Result<std::vector<JitUnwindRows>> read_jit_unwind_rows(std::string_view record,
                                                                      const JitDumpState& state,
                                                                      std::uint64_t code_address,
                                                                      std::uint64_t code_bytes);

}  // namespace profd
