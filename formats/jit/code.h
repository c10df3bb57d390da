// JIT code of one function at one place, and the parts of its JIT source that describe it.

#pragma once

#include <cstdint>
#include <string_view>

namespace profd {

// Part of a JIT source. 0 bytes: there is none.
struct JitFileRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const JitFileRange&, const JitFileRange&) = default;
};

struct JitCode {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // 1 to jitdump::kMaxCodeBytes
  std::uint64_t born_ns = 0;
  std::uint64_t serial = 0;       // set by JitCodeIndex: unique in an index
  std::uint16_t source = 0;       // the caller's number of the JIT source
  std::string_view name;          // as the source has it
  JitFileRange code{};            // the code bytes; none in a perf map
  JitFileRange debug_info{};      // the record of the lines
  JitFileRange unwinding_info{};  // the record of the unwind data
};

}  // namespace profd
