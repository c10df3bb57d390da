// Where the loop of CPython 3.11 and 3.12 has set what its entry sets.

#pragma once

#include <cstdint>
#include <string_view>

#include "bpf/python_abi.h"

namespace profd::python {

// The bytes of the loop that only its entry runs: up to the first address behind the instruction
// that links the cframe to which the rest of the loop jumps, as it does for each call of a Python
// function. `code` is that of _PyEval_EvalFrameDefault. 0: the layout has no prologue, or the
// instruction or such a jump is not in the first PROFD_PYTHON_PROLOGUE_BYTES.
[[nodiscard]] std::uint8_t find_prologue(std::string_view code, const profd_python_layout& layout);

}  // namespace profd::python
