// What a code object of CPython is called, and its lines.

#pragma once

#include "formats/interpreters/code.h"

namespace profd {

// The qualified name, else the name (before 3.11: nothing is guessed), else "?". `code.kind` is
// PROFD_RUNTIME_PYTHON.
[[nodiscard]] DecodedCode decode_python_code(const RawCode& code);

}  // namespace profd
