// Texts of an interpreter as UTF-8.

#pragma once

#include <string>

#include "formats/interpreters/code.h"

namespace profd {

// Latin-1, UCS-2 and UCS-4 code points, of the host's byte order, or bytes that should be UTF-8.
// What is no code point (surrogates, above U+10FFFF, malformed UTF-8) is U+FFFD; a NUL ends the
// text. A text whose kind is unknown or absent is empty, and so is one whose size is no multiple of
// its kind.
[[nodiscard]] std::string utf8_of(const RawText& text);

// The same for a text of a code object. One that was cut ends in "...".
[[nodiscard]] std::string utf8_of(const RawCode& code, profd_code_text text);

}  // namespace profd
