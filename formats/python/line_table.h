// The line tables of CPython: co_lnotab (3.8, 3.9), co_linetable of 3.10 (PEP 626) and of 3.11 and
// later (Objects/locations.md, InternalDocs/code_objects.md). Pure; the bytes are another user's.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/interpreters/code.h"

namespace profd::python {

// The lines by code unit (2 bytes of bytecode), sorted, each position once, most equal ones of
// neighbours as one; 0 where a unit has no line, also behind a table since 3.10 that ends before
// the code. Ends at malformed bytes, at kMaxInterpretedLines, or behind `units` (0: not known). A
// line below 1 is 0. `minor` is that of the version: 8 to 15.
[[nodiscard]] std::vector<InterpretedLine> decode_lines(std::string_view table, unsigned minor,
                                                        std::uint32_t first_line,
                                                        std::uint32_t units);

}  // namespace profd::python
