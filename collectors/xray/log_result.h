// Traces that a process wrote into a file, as profiles: in the parser's process, for files are
// other users' bytes.

#pragma once

#include <cstdint>

#include "collectors/xray/live_result.h"
#include "formats/base/result.h"

namespace profd::xray {

// What read_log() needs at most beyond the program's own, and what of it its result takes. Stacks
// that don't fit are counted, and their time is their callers'.
inline constexpr std::uint64_t kLogMemoryBytes = std::uint64_t{384} << 20;
inline constexpr std::uint64_t kLogResultBytes = std::uint64_t{96} << 20;

// Which process wrote it, as the trace says; 0: it does not (before version 3). `log` is borrowed,
// and read by pread only.
[[nodiscard]] Result<std::int32_t> process_of_log(int log);

// `program` is the file of the program that wrote it, or -1: then functions have no names but their
// numbers. Addresses are those of the file.
[[nodiscard]] Result<LiveResult> read_log(int log, int program);

}  // namespace profd::xray
