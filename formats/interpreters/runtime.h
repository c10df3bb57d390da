// An interpreter in an ELF file: what a recogniser found. A value that travels from the parser.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "bpf/interpreter_abi.h"

namespace profd {

// Whether the frames of an interpreter can be read. All but kNone and kKnown are refusals, which
// `profctl ps`, `doctor` and the status name.
enum class RuntimeVerdict : std::uint8_t {
  kNone,            // the file has no interpreter
  kKnown,           // `runtime` is complete
  kNoSymbols,       // those that have the addresses are stripped
  kUnknownVersion,  // of no layout that profd has
  kUnknownLayout,   // of a known version, with other offsets: a debug, trace-refs or foreign build
  kFreeThreaded,    // built without the GIL
  kNoThreadState,   // the code that leads to the thread state has an unknown form
  kMalformed,       // what the file says contradicts itself
};
inline constexpr std::size_t kRuntimeVerdictCount = 8;
[[nodiscard]] constexpr std::string_view name_of(RuntimeVerdict verdict) {
  constexpr std::array<std::string_view, kRuntimeVerdictCount> kNames = {
      "none",           "known",         "no_symbols",      "unknown_version",
      "unknown_layout", "free_threaded", "no_thread_state", "malformed"};
  const auto index = static_cast<std::size_t>(verdict);
  return index < kNames.size() ? kNames[index] : "unknown";
}

inline constexpr std::uint32_t kUnknownPatch = 0xff;

struct FoundRuntime {
  RuntimeVerdict verdict = RuntimeVerdict::kNone;
  // profd_runtime_kind; NONE only where the verdict is kNone, or kMalformed without an answer of
  // the parser.
  std::uint8_t kind = PROFD_RUNTIME_NONE;
  // Major, minor and patch level, one byte each, the highest first: 0x030b02 is 3.11.2. 0: unknown.
  // A patch level of kUnknownPatch: the file does not say it.
  std::uint32_t version = 0;
  profd_runtime runtime{};  // all 0 unless verdict is kKnown
};

// Whether a child's answer can be given to the programs: each enumerator is known, a known runtime
// has a kind and a layout, and each part of its loop is within 4 GiB.
[[nodiscard]] bool is_valid(const FoundRuntime& found);

// "Python", "PHP": as formats/jit/runtimes.h has them. Empty for NONE and unknown ones.
[[nodiscard]] std::string_view name_of_runtime(std::uint8_t kind);

// "_PyEval_EvalFrameDefault", "execute_ex": the name of all parts of the loop
// (profd_runtime::loop), of which compilers leave some without a symbol. Empty for NONE and unknown
// ones.
[[nodiscard]] std::string_view loop_name(std::uint8_t kind);

// Whether this offset in the file is code of the loop.
[[nodiscard]] bool is_loop(const profd_runtime& runtime, std::uint64_t file_offset);

// "python 3.11.2", "php 8.2"; "python" where the version is not known; empty for NONE.
[[nodiscard]] std::string text_of(const FoundRuntime& found);

}  // namespace profd
