// The parser child's part for JIT runtimes' files: reads what another user writes, by pread alone,
// in bounded parts.

#pragma once

#include <string>

#include "collectors/parser/jit_results.h"
#include "formats/base/result.h"

namespace profd::parser {

// Both read at most kJitChunkBytes from the state on. A file that shrank: see file_bytes.
[[nodiscard]] Result<JitDumpChunk> read_jitdump_chunk(int fd, const JitDumpState& state);
[[nodiscard]] Result<PerfMapChunk> read_perf_map_chunk(int fd, const PerfMapState& state);

[[nodiscard]] JitUnwindAnswers read_jit_unwind_rows(int fd, const JitUnwindRequest& request);

// Encoded, since the views of an answer would outlive what they point into.
[[nodiscard]] Result<std::string> read_jit_code(int fd, const JitCodeRequest& request);

}  // namespace profd::parser
