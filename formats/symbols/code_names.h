// The names of code addresses: what all sources of names (symbol tables, DWARF, JIT runtimes, the
// kernel) answer with.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/utf8_text.h"

namespace profd {

// The limit for each name and file of a frame. UTF-8, cut between two characters, "..." at the end.
inline constexpr std::size_t kMaxCodeNameBytes = 1024;
inline constexpr std::size_t kMaxFramesOfAddress = 64;

// One function at an address.
struct CodeFrame {
  std::string name{};            // as it is shown: demangled, without the suffix of a clone
  std::string system_name{};     // as it is in the file, mangled
  std::string file{};            // of the source; empty: unknown
  std::uint32_t line = 0;        // 0: unknown
  std::uint32_t start_line = 0;  // where the function starts; 0: unknown

  friend bool operator==(const CodeFrame&, const CodeFrame&) = default;
};

// Where the name of an address comes from or, from kGap on, why it has none.
enum class NameSource : std::uint8_t {
  kSymbolTable,     // the file's .symtab
  kDebugFile,       // the .symtab of the file's debug file
  kMiniDebugInfo,   // the file's .gnu_debugdata
  kDynamicSymbols,  // the file's .dynsym
  kPlt,             // a slot that jumps to an imported function
  kGo,              // the Go runtime's table of functions
  kDwarf,
  kJit,
  kInterpreted,  // a code object of an interpreter, or the loop that runs them
  kKernel,
  kVdso,
  kWindow,       // read back from a window that an earlier daemon wrote
  kGap,          // the file has symbols, but none contains the address
  kNoSymbols,    // the file has none
  kNoFile,       // the file cannot be opened
  kRefused,      // the file is malformed, of an unsupported kind or over a limit of its own
  kOverBudget,   // the time or the bytes for names were spent
  kNoMapping,    // it is not known what is mapped at the address
  kAnonymous,    // memory without a file, and no JIT source for it
  kNotReadable,  // the file is run by a user who may not read it
};

inline constexpr std::size_t kNameSources = 20;
// As in JSON and metrics.
inline constexpr std::array<std::string_view, kNameSources> kNameSourceTexts{
    "symtab",  "debug_file",  "minidebuginfo", "dynsym",      "plt",
    "go",      "dwarf",       "jit",           "interpreted", "kernel",
    "vdso",    "window",      "gap",           "no_symbols",  "no_file",
    "refused", "over_budget", "no_mapping",    "anonymous",   "not_readable"};
static_assert(static_cast<std::size_t>(NameSource::kNotReadable) + 1 == kNameSources);

[[nodiscard]] constexpr std::string_view text_of(NameSource source) {
  return kNameSourceTexts.at(static_cast<std::size_t>(source));
}
[[nodiscard]] constexpr bool has_name(NameSource source) { return source < NameSource::kGap; }

struct AddressNames {
  std::uint64_t address = 0;        // of the file, not of a process
  std::vector<CodeFrame> frames{};  // the innermost inlined function first; empty: no name
  NameSource source = NameSource::kGap;
  bool is_folded = false;  // the linker gave several functions this code

  friend bool operator==(const AddressNames&, const AddressNames&) = default;
};

// For what a child process answers.
[[nodiscard]] inline bool is_valid(const CodeFrame& frame) {
  const std::array<std::string_view, 3> texts{frame.name, frame.system_name, frame.file};
  return !frame.name.empty() && std::ranges::all_of(texts, [](std::string_view text) {
    return text.size() <= kMaxCodeNameBytes && is_printable(text);
  });
}
[[nodiscard]] inline bool is_valid(const AddressNames& names) {
  return static_cast<std::size_t>(names.source) < kNameSources &&
         has_name(names.source) == !names.frames.empty() &&
         names.frames.size() <= kMaxFramesOfAddress;
}

}  // namespace profd
