// What a function of PHP is called.

#pragma once

#include "formats/interpreters/code.h"

namespace profd {

// "Class::method", "function", or "{main}" for the code of a file outside of its functions. Without
// lines: the position of a frame is its line. `code.kind` is PROFD_RUNTIME_PHP.
[[nodiscard]] DecodedCode decode_php_code(const RawCode& code);

}  // namespace profd
