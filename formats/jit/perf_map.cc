#include "formats/jit/perf_map.h"

#include <algorithm>

#include "formats/base/text_fields.h"
#include "formats/jit/jitdump_format.h"

namespace profd {
namespace {

// FNV-1a. The writer of the file can make it collide, but hides only its own lines by that.
std::uint64_t hash_of(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::uint64_t prefixed_hexadecimal(TextFields& fields) {
  if (fields.rest().starts_with("0x") || fields.rest().starts_with("0X")) {
    fields.expect('0');
    fields.expect(fields.rest()[0]);
  }
  return fields.hexadecimal();
}

bool parse_line(std::string_view text, PerfMapLine& line) {
  TextFields fields(text);
  line.address = prefixed_hexadecimal(fields);
  fields.blanks();
  line.bytes = prefixed_hexadecimal(fields);
  fields.blanks();
  const std::string_view rest = fields.rest();
  line.name = rest.substr(0, std::min(rest.find('\0'), kMaxPerfMapNameBytes));
  constexpr std::uint64_t kKernelHalf = std::uint64_t{1} << 63;
  return fields.ok() && !line.name.empty() && line.bytes > 0 &&
         line.bytes <= jitdump::kMaxCodeBytes && line.address < kKernelHalf;
}

// Reads the complete lines, and removes them from `text`.
void read_lines(std::string_view& text, PerfMapState& state, PerfMapLines& result) {
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    PerfMapLine parsed;
    if (state.in_long_line) {
      state.in_long_line = false;
    } else if (line.size() > kMaxPerfMapLineBytes) {
      ++result.long_lines;
    } else if (parse_line(line, parsed)) {
      result.lines.push_back(parsed);
    } else {
      ++result.bad_lines;
    }
  }
}

}  // namespace

PerfMapLines read_perf_map(std::string_view bytes, PerfMapState& state) {
  PerfMapLines result;
  const std::size_t overlap = state.offset - state.read_from();
  if (bytes.size() < overlap ||
      (overlap > 0 && hash_of(bytes.substr(0, overlap)) != state.overlap_hash)) {
    state = {};
    result.rewritten = true;
    return result;
  }
  const std::uint64_t start = state.read_from();
  std::string_view rest = bytes.substr(overlap);
  read_lines(rest, state, result);
  if (rest.size() > kMaxPerfMapLineBytes) {
    if (!state.in_long_line) ++result.long_lines;
    state.in_long_line = true;
    rest = {};
  }
  state.offset = start + bytes.size() - rest.size();
  const std::string_view passed = bytes.substr(0, bytes.size() - rest.size());
  state.overlap_hash = hash_of(passed.substr(state.read_from() - start));
  return result;
}

}  // namespace profd
