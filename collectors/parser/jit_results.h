// What the parser reads from JIT sources (jitdumps and perf maps).

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/jit/jitdump_reader.h"
#include "formats/jit/perf_map.h"
#include "formats/jit/unwind_rows.h"

namespace profd {

// How much of a file one request reads. A chunk has thousands of the smallest records; each is
// applied on the io thread, and many chunks may wait for that.
inline constexpr std::size_t kJitChunkBytes = std::size_t{256} << 10;

// A part of a jitdump, from one state to the next. `text` owns the events' names.
struct JitDumpChunk {
  JitDumpState state;
  std::uint64_t file_bytes = 0;  // the file's size when it was read
  JitDumpEvents read;
  std::unique_ptr<const std::string> text;
};

// A part of a perf map. `text` owns the lines' names.
struct PerfMapChunk {
  PerfMapState state;
  std::uint64_t file_bytes = 0;
  PerfMapLines read;
  std::unique_ptr<const std::string> text;
};

// A function whose code bytes and lines are wanted.
struct JitCodeQuery {
  std::uint64_t address = 0;
  std::uint64_t code_bytes = 0;
  JitFileRange code;        // 0 bytes: the code bytes are not wanted
  JitFileRange debug_info;  // 0 bytes: there are no lines
  std::string script{};     // for decode_jit_lines()
};

// Empty where the file no longer has the bytes, or an answer's limit is reached. Views into
// JitCodeAnswers::text.
struct JitCodeAnswer {
  std::string_view code;
  std::vector<JitLine> lines;
};

// One answer for each query, in their order.
struct JitCodeAnswers {
  std::vector<JitCodeAnswer> functions;
  std::unique_ptr<const std::string> text;
};

// The limit of JitCodeAnswers; what would exceed it is left empty.
inline constexpr std::size_t kMaxJitCodeAnswerBytes = std::size_t{32} << 20;

// The record of one function, or of a whole object where code_bytes is 0.
struct JitUnwindQuery {
  std::uint64_t address = 0;
  std::uint64_t code_bytes = 0;
  JitFileRange unwinding_info;
};

// The functions of each query, in their order; none where the record is malformed.
using JitUnwindAnswers = std::vector<std::vector<JitUnwindRows>>;

}  // namespace profd
