// Makes profiles of a trace file. Runs in the parser's process, since the files belong to other
// users.

#pragma once

#include <cstdint>

#include "collectors/xray/live_result.h"
#include "formats/base/result.h"

namespace profd::xray {

// The memory that read_log() takes at most, and the part of it that its result takes. Stacks that
// do not fit are counted, and their time counts for their callers.
inline constexpr std::uint64_t kLogMemoryBytes = std::uint64_t{384} << 20;
inline constexpr std::uint64_t kLogResultBytes = std::uint64_t{96} << 20;

// The process that wrote the trace; 0: the trace does not have it (before version 3). `log` is
// borrowed and read with pread() only.
[[nodiscard]] Result<std::int32_t> process_of_log(int log);

// `program` is the file of the program that wrote the trace, whose addresses the result has. -1:
// the program is unknown, and functions are named by their numbers.
[[nodiscard]] Result<LiveResult> read_log(int log, int program);

}  // namespace profd::xray
