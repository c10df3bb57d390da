#include "collectors/parser/jit_results.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "collectors/sandbox/encoder.h"
#include "formats/base/cursor.h"

namespace profd::parser {
namespace {

Error malformed() { return fail(ErrorCode::kMalformed, "the parser's answer has another form"); }

bool at_end(const Cursor& cursor) { return cursor.ok() && cursor.remaining() == 0; }

std::string_view read_text(Cursor& cursor) {
  return cursor.read_bytes(cursor.read<std::uint32_t>());
}

void add(Encoder& out, bool value) { out.add(static_cast<std::uint8_t>(value)); }

void add(Encoder& out, const JitFileRange& range) { out.add(range.offset).add(range.bytes); }

JitFileRange read_range(Cursor& cursor) {
  JitFileRange range;
  range.offset = cursor.read<std::uint64_t>();
  range.bytes = cursor.read<std::uint64_t>();
  return range;
}

void add(Encoder& out, const JitDumpState& state) {
  static_assert(sizeof(JitDumpState) == 64 && sizeof(PerfMapState) == 24, "all of it is sent");
  out.add(state.offset)
      .add(state.flags)
      .add(static_cast<std::uint64_t>(state.line_bias_votes))
      .add(state.last_timestamp)
      .add(state.unwinding_offset)
      .add(state.unwinding_bytes)
      .add(state.pid)
      .add(state.elf_machine);
  add(out, state.header_read);
  add(out, state.big_endian);
  add(out, state.frame_lost);
}

JitDumpState read_dump_state(Cursor& cursor) {
  JitDumpState state;
  state.offset = cursor.read<std::uint64_t>();
  state.flags = cursor.read<std::uint64_t>();
  state.line_bias_votes = static_cast<std::int64_t>(cursor.read<std::uint64_t>());
  state.last_timestamp = cursor.read<std::uint64_t>();
  state.unwinding_offset = cursor.read<std::uint64_t>();
  state.unwinding_bytes = cursor.read<std::uint64_t>();
  state.pid = cursor.read<std::uint32_t>();
  state.elf_machine = cursor.read<std::uint32_t>();
  state.header_read = cursor.read<std::uint8_t>() != 0;
  state.big_endian = cursor.read<std::uint8_t>() != 0;
  state.frame_lost = cursor.read<std::uint8_t>() != 0;
  return state;
}

void add(Encoder& out, const PerfMapState& state) {
  out.add(state.offset).add(state.overlap_hash);
  add(out, state.in_long_line);
}

PerfMapState read_map_state(Cursor& cursor) {
  PerfMapState state;
  state.offset = cursor.read<std::uint64_t>();
  state.overlap_hash = cursor.read<std::uint64_t>();
  state.in_long_line = cursor.read<std::uint8_t>() != 0;
  return state;
}

void add(Encoder& out, const JitDumpEvent& event) {
  out.add(static_cast<std::uint8_t>(event.kind))
      .add(event.pid)
      .add(event.tid)
      .add(event.timestamp)
      .add(event.address)
      .add(event.old_address)
      .add(event.code_bytes)
      .add(event.name);
  add(out, event.code);
  add(out, event.debug_info);
  add(out, event.unwinding_info);
}

// False for a kind that there isn't.
bool read_event(Cursor& cursor, JitDumpEvent& event) {
  const auto kind = cursor.read<std::uint8_t>();
  event.kind = static_cast<JitDumpEventKind>(kind);
  event.pid = cursor.read<std::uint32_t>();
  event.tid = cursor.read<std::uint32_t>();
  event.timestamp = cursor.read<std::uint64_t>();
  event.address = cursor.read<std::uint64_t>();
  event.old_address = cursor.read<std::uint64_t>();
  event.code_bytes = cursor.read<std::uint64_t>();
  event.name = read_text(cursor);
  event.code = read_range(cursor);
  event.debug_info = read_range(cursor);
  event.unwinding_info = read_range(cursor);
  return kind <= static_cast<std::uint8_t>(JitDumpEventKind::kClose);
}

void add(Encoder& out, const JitCodeAnswer& answer) {
  out.add(answer.code).add(static_cast<std::uint32_t>(answer.lines.size()));
  for (const JitLine& line : answer.lines) {
    out.add(line.code_offset).add(line.line).add(line.discriminator).add(line.file);
  }
}

bool read_answer(Cursor& cursor, JitCodeAnswer& answer) {
  answer.code = read_text(cursor);
  const auto lines = cursor.read<std::uint32_t>();
  if (lines > jitdump::kMaxLinesOfFunction) return false;
  for (std::uint32_t i = 0; i < lines && cursor.ok(); ++i) {
    JitLine line;
    line.code_offset = cursor.read<std::uint32_t>();
    line.line = cursor.read<std::uint32_t>();
    line.discriminator = cursor.read<std::uint32_t>();
    line.file = read_text(cursor);
    // Sorted, one for each place: what a line table is made of.
    if (!answer.lines.empty() && line.code_offset <= answer.lines.back().code_offset) return false;
    answer.lines.push_back(line);
  }
  return cursor.ok();
}

void add(Encoder& out, const JitUnwindRows& function) {
  static_assert(std::is_trivially_copyable_v<profd_rule>);
  out.add(function.start).add(function.end);
  out.add(static_cast<std::uint32_t>(function.rows.size()));
  for (const UnwindRow& row : function.rows) {
    out.add(row.offset);
    out.add(std::string_view(reinterpret_cast<const char*>(&row.rule), sizeof row.rule));
  }
}

// What JitCodeRows relies on: rows rise, within the function.
bool read_function(Cursor& cursor, JitUnwindRows& function) {
  function.start = cursor.read<std::uint64_t>();
  function.end = cursor.read<std::uint64_t>();
  const auto rows = cursor.read<std::uint32_t>();
  if (function.start >= function.end || rows == 0 || rows > kMaxJitUnwindRows) return false;
  for (std::uint32_t i = 0; i < rows; ++i) {
    UnwindRow row;
    row.offset = cursor.read<std::uint64_t>();
    const std::string_view rule = read_text(cursor);
    const std::uint64_t least = i == 0 ? function.start : function.rows.back().offset;
    if (rule.size() != sizeof row.rule || row.offset < least || row.offset >= function.end) {
      return false;
    }
    std::memcpy(&row.rule, rule.data(), sizeof row.rule);
    if (row.rule.kind >= PROFD_RULE_KIND_COUNT) return false;
    function.rows.push_back(row);
  }
  return true;
}

}  // namespace

std::string encode(const JitDumpState& state) {
  Encoder out;
  add(out, state);
  return out.take();
}

Result<JitDumpState> decode_jitdump_state(std::string_view bytes) {
  Cursor cursor(bytes);
  const JitDumpState state = read_dump_state(cursor);
  if (!at_end(cursor)) return malformed();
  return state;
}

std::string encode(const PerfMapState& state) {
  Encoder out;
  add(out, state);
  return out.take();
}

Result<PerfMapState> decode_perf_map_state(std::string_view bytes) {
  Cursor cursor(bytes);
  const PerfMapState state = read_map_state(cursor);
  if (!at_end(cursor)) return malformed();
  return state;
}

std::string encode(const JitCodeRequest& request) {
  Encoder out;
  add(out, request.state);
  for (const JitCodeQuery& query : request.queries) {
    out.add(query.address).add(query.code_bytes);
    add(out, query.code);
    add(out, query.debug_info);
    out.add(query.script);
  }
  return out.take();
}

Result<JitCodeRequest> decode_jit_code_request(std::string_view bytes) {
  Cursor cursor(bytes);
  JitCodeRequest request;
  request.state = read_dump_state(cursor);
  while (cursor.ok() && cursor.remaining() > 0) {
    JitCodeQuery query;
    query.address = cursor.read<std::uint64_t>();
    query.code_bytes = cursor.read<std::uint64_t>();
    query.code = read_range(cursor);
    query.debug_info = read_range(cursor);
    query.script = cursor.read_bytes(cursor.read<std::uint32_t>());
    request.queries.push_back(query);
  }
  if (!at_end(cursor)) return malformed();
  return request;
}

std::string encode(const JitUnwindRequest& request) {
  Encoder out;
  add(out, request.state);
  for (const JitUnwindQuery& query : request.queries) {
    out.add(query.address).add(query.code_bytes);
    add(out, query.unwinding_info);
  }
  return out.take();
}

Result<JitUnwindRequest> decode_jit_unwind_request(std::string_view bytes) {
  Cursor cursor(bytes);
  JitUnwindRequest request;
  request.state = read_dump_state(cursor);
  while (cursor.ok() && cursor.remaining() > 0) {
    JitUnwindQuery query;
    query.address = cursor.read<std::uint64_t>();
    query.code_bytes = cursor.read<std::uint64_t>();
    query.unwinding_info = read_range(cursor);
    request.queries.push_back(query);
  }
  if (!at_end(cursor)) return malformed();
  return request;
}

std::string encode(const JitUnwindAnswers& answers) {
  Encoder out;
  for (const std::vector<JitUnwindRows>& functions : answers) {
    out.add(static_cast<std::uint32_t>(functions.size()));
    for (const JitUnwindRows& function : functions) add(out, function);
  }
  return out.take();
}

Result<JitUnwindAnswers> decode_jit_unwind_answers(std::string_view bytes) {
  Cursor cursor(bytes);
  JitUnwindAnswers answers;
  while (cursor.ok() && cursor.remaining() > 0) {
    const auto functions = cursor.read<std::uint32_t>();
    if (functions > kMaxJitUnwindRows) return malformed();
    answers.emplace_back();
    for (std::uint32_t i = 0; i < functions; ++i) {
      if (!read_function(cursor, answers.back().emplace_back())) return malformed();
    }
  }
  if (!at_end(cursor)) return malformed();
  return answers;
}

std::string encode(const JitDumpChunk& chunk) {
  Encoder out;
  add(out, chunk.state);
  out.add(chunk.file_bytes).add(chunk.read.records);
  for (const std::uint64_t count : chunk.read.damage) out.add(count);
  for (const JitDumpEvent& event : chunk.read.events) add(out, event);
  return out.take();
}

Result<JitDumpChunk> decode_jitdump_chunk(std::string bytes) {
  JitDumpChunk chunk;
  chunk.text = std::make_unique<const std::string>(std::move(bytes));
  Cursor cursor(*chunk.text);
  chunk.state = read_dump_state(cursor);
  chunk.file_bytes = cursor.read<std::uint64_t>();
  chunk.read.records = cursor.read<std::uint64_t>();
  for (std::uint64_t& count : chunk.read.damage) count = cursor.read<std::uint64_t>();
  while (cursor.ok() && cursor.remaining() > 0) {
    JitDumpEvent event;
    if (!read_event(cursor, event)) return malformed();
    chunk.read.events.push_back(event);
  }
  if (!at_end(cursor)) return malformed();
  return chunk;
}

std::string encode(const PerfMapChunk& chunk) {
  Encoder out;
  add(out, chunk.state);
  out.add(chunk.file_bytes).add(chunk.read.bad_lines).add(chunk.read.long_lines);
  add(out, chunk.read.rewritten);
  for (const PerfMapLine& line : chunk.read.lines) {
    out.add(line.address).add(line.bytes).add(line.name);
  }
  return out.take();
}

Result<PerfMapChunk> decode_perf_map_chunk(std::string bytes) {
  PerfMapChunk chunk;
  chunk.text = std::make_unique<const std::string>(std::move(bytes));
  Cursor cursor(*chunk.text);
  chunk.state = read_map_state(cursor);
  chunk.file_bytes = cursor.read<std::uint64_t>();
  chunk.read.bad_lines = cursor.read<std::uint64_t>();
  chunk.read.long_lines = cursor.read<std::uint64_t>();
  chunk.read.rewritten = cursor.read<std::uint8_t>() != 0;
  while (cursor.ok() && cursor.remaining() > 0) {
    PerfMapLine line;
    line.address = cursor.read<std::uint64_t>();
    line.bytes = cursor.read<std::uint64_t>();
    line.name = read_text(cursor);
    chunk.read.lines.push_back(line);
  }
  if (!at_end(cursor)) return malformed();
  return chunk;
}

std::string encode(const JitCodeAnswers& answers) {
  Encoder out;
  for (const JitCodeAnswer& answer : answers.functions) add(out, answer);
  return out.take();
}

Result<JitCodeAnswers> decode_jit_code_answers(std::string bytes) {
  JitCodeAnswers answers;
  answers.text = std::make_unique<const std::string>(std::move(bytes));
  Cursor cursor(*answers.text);
  while (cursor.ok() && cursor.remaining() > 0) {
    if (!read_answer(cursor, answers.functions.emplace_back())) return malformed();
  }
  if (!at_end(cursor)) return malformed();
  return answers;
}

}  // namespace profd::parser
