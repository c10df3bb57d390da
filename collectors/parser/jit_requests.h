// The child's functions for JIT sources: they read what another user writes, by pread alone, in
// bounded parts.

#pragma once

#include <string>

#include "collectors/parser/messages.h"
#include "formats/base/result.h"

namespace profd::parser {

// Both read at most kJitChunkBytes from the state on. A file that became shorter gives a chunk
// without content, whose file_bytes say so.
[[nodiscard]] Result<JitDumpChunk> read_jitdump_chunk(int fd, const JitDumpState& state);
[[nodiscard]] Result<PerfMapChunk> read_perf_map_chunk(int fd, const PerfMapState& state);

[[nodiscard]] JitUnwindAnswers read_jit_unwind_rows(int fd, const JitUnwindRequest& request);

// Encoded JitCodeAnswers, since what their views point into lives only during the call.
[[nodiscard]] Result<std::string> read_jit_code(int fd, const JitCodeRequest& request);

}  // namespace profd::parser
