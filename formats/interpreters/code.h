// A code object of an interpreter: the raw record of it, and what it means.
//
// Raw texts are what the process had in its memory: any bytes. They are decoded in the parser only.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/interpreter_abi.h"

namespace profd {

// A text as the runtime has it. Borrowed.
struct RawText {
  std::string_view bytes;
  std::uint8_t kind = PROFD_TEXT_ABSENT;  // profd_text_kind
};

// Borrows its texts.
struct RawCode {
  std::uint8_t kind = PROFD_RUNTIME_NONE;  // profd_runtime_kind
  std::uint8_t layout = 0;
  std::uint8_t cut = 0;  // bits: texts that were longer (profd_interpreted_code)
  std::uint64_t address = 0;
  std::uint32_t first_line = 0;
  std::uint32_t units = 0;
  std::array<RawText, PROFD_CODE_TEXTS> texts{};  // by profd_code_text
};

// From a position on, up to the next one. Line 0: there is none.
struct InterpretedLine {
  std::uint32_t position = 0;
  std::uint32_t line = 0;

  friend bool operator==(const InterpretedLine&, const InterpretedLine&) = default;
};

// A decoder ends a line table there. The longest table that is announced has 8192 bytes.
inline constexpr std::size_t kMaxInterpretedLines = 8192;

// What a code object is called and where it stands, in valid UTF-8 without NUL.
struct DecodedCode {
  std::string name;                    // the qualified one where there is one; never empty
  std::string file;                    // as the runtime has it: "<frozen runpy>", "<string>" too
  std::vector<InterpretedLine> lines;  // by position, each once; empty: only first_line is known

  friend bool operator==(const DecodedCode&, const DecodedCode&) = default;
};

// The answers to a list of RawCode, in their order.
using DecodedCodes = std::vector<DecodedCode>;

// Sorted lines, each position once, at most kMaxInterpretedLines. For what a child answers.
[[nodiscard]] bool is_valid(const DecodedCode& code);

// The line at a position, from the last entry that is not behind it; 0: unknown, and for
// PROFD_NO_POSITION that of the first entry.
[[nodiscard]] std::uint32_t line_at(const DecodedCode& code, std::uint32_t position);

}  // namespace profd
