// What the parser is asked about a JIT runtime's files and what it answers, as bytes and back. A
// child is believed no more than a stranger: what doesn't fit its form is kMalformed.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"
#include "formats/jit/jitdump_reader.h"
#include "formats/jit/perf_map.h"
#include "formats/jit/unwind_rows.h"

namespace profd {

// A part of a jitdump, from one state to the next. `text` owns the events' names.
struct JitDumpChunk {
  JitDumpState state;
  std::uint64_t file_bytes = 0;  // its size when it was read
  JitDumpEvents read;
  std::unique_ptr<const std::string> text;
};

struct PerfMapChunk {
  PerfMapState state;
  std::uint64_t file_bytes = 0;
  PerfMapLines read;
  std::unique_ptr<const std::string> text;
};

// A function whose bytes and lines are wanted.
struct JitCodeQuery {
  std::uint64_t address = 0;
  std::uint64_t code_bytes = 0;
  JitFileRange code;        // none: no bytes
  JitFileRange debug_info;  // none: no lines
  std::string script{};     // for decode_jit_lines()
};

// Views into JitCodeAnswers::text. What could not be read, or was over a limit, is empty.
struct JitCodeAnswer {
  std::string_view code;
  std::vector<JitLine> lines;
};

// For code of 0 bytes: a record that speaks of a whole object.
struct JitUnwindQuery {
  std::uint64_t address = 0;
  std::uint64_t code_bytes = 0;
  JitFileRange unwinding_info;
};

// One for each query, in their order; none where the record makes no sense.
using JitUnwindAnswers = std::vector<std::vector<JitUnwindRows>>;

// One for each query, in their order.
struct JitCodeAnswers {
  std::vector<JitCodeAnswer> functions;
  std::unique_ptr<const std::string> text;
};

// Of one answer; what comes after is left empty.
inline constexpr std::size_t kMaxJitCodeAnswerBytes = std::size_t{32} << 20;

namespace parser {

// How much of a file one request reads. Of the smallest records it has thousands, each taken up on
// the io thread, and many such parts may wait for that.
inline constexpr std::size_t kJitChunkBytes = std::size_t{256} << 10;

struct JitCodeRequest {
  JitDumpState state;
  std::vector<JitCodeQuery> queries;
};

struct JitUnwindRequest {
  JitDumpState state;
  std::vector<JitUnwindQuery> queries;
};

[[nodiscard]] std::string encode(const JitDumpState& state);
[[nodiscard]] std::string encode(const PerfMapState& state);
[[nodiscard]] std::string encode(const JitCodeRequest& request);
[[nodiscard]] std::string encode(const JitUnwindRequest& request);
[[nodiscard]] std::string encode(const JitDumpChunk& chunk);
[[nodiscard]] std::string encode(const PerfMapChunk& chunk);
[[nodiscard]] std::string encode(const JitCodeAnswers& answers);
[[nodiscard]] std::string encode(const JitUnwindAnswers& answers);

[[nodiscard]] Result<JitDumpState> decode_jitdump_state(std::string_view bytes);
[[nodiscard]] Result<PerfMapState> decode_perf_map_state(std::string_view bytes);
[[nodiscard]] Result<JitCodeRequest> decode_jit_code_request(std::string_view bytes);
[[nodiscard]] Result<JitUnwindRequest> decode_jit_unwind_request(std::string_view bytes);
[[nodiscard]] Result<JitDumpChunk> decode_jitdump_chunk(std::string bytes);
[[nodiscard]] Result<PerfMapChunk> decode_perf_map_chunk(std::string bytes);
[[nodiscard]] Result<JitCodeAnswers> decode_jit_code_answers(std::string bytes);
[[nodiscard]] Result<JitUnwindAnswers> decode_jit_unwind_answers(std::string_view bytes);

}  // namespace parser
}  // namespace profd
