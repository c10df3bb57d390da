#include "daemon/profiles/jit_code.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "formats/base/utf8_text.h"

namespace profd {
namespace {

// V8 reads the names of some files from memory that it has freed, which gives a few random bytes.
bool is_likely_file(std::string_view name) {
  constexpr std::size_t kShortestName = 4;  // "a.js"
  return name.size() >= kShortestName && is_valid_utf8(name) && !has_controls(name);
}

// Removes a number behind the last colon, and the colon.
std::string_view without_number(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == text.npos || colon + 1 == text.size()) return text;
  const std::string_view number = text.substr(colon + 1);
  return number.find_first_not_of("0123456789") == number.npos ? text.substr(0, colon) : text;
}

// The file in the name of a V8 function: "JS:*name FILE:LINE:COLUMN", before node 20
// "LazyCompile:*name FILE:LINE". Empty: the name has none.
std::string_view file_in_name(std::string_view function) {
  const std::size_t colon = function.find(':');
  const std::size_t blank = function.find(' ');
  if (blank == function.npos || colon > blank) return {};
  constexpr std::array<std::string_view, 5> kTags{"JS", "LazyCompile", "Function", "Script",
                                                  "Eval"};
  if (std::ranges::find(kTags, function.substr(0, colon)) == kTags.end()) return {};
  return without_number(without_number(function.substr(blank + 1)));
}

}  // namespace

void read_jit_code(Parser& parser, const JitSamples& samples, bool with_code_bytes,
                   const std::function<void(std::size_t function, const JitCodeAnswer&)>& visit) {
  for (std::size_t source = 0; source < samples.sources.size(); ++source) {
    std::vector<std::size_t> indexes;
    std::vector<JitCodeQuery> queries;
    for (std::size_t i = 0; i < samples.functions.size(); ++i) {
      const SampledJitCode& code = samples.functions[i];
      if (code.source != source) continue;
      indexes.push_back(i);
      queries.push_back({.address = code.address,
                         .code_bytes = code.bytes,
                         .code = with_code_bytes ? code.code : JitFileRange{},
                         .debug_info = code.debug_info,
                         .script = std::string(jit_script_of(code.name))});
    }
    const JitSourceFile& from = samples.sources[source];
    const auto answers = parser.read_jit_code(from.file->fd->get(), from.state, queries);
    if (!answers) continue;
    for (std::size_t i = 0; i < indexes.size(); ++i) visit(indexes[i], answers->functions[i]);
  }
}

std::string_view file_of_jit_line(const JitLine& line, std::string_view function) {
  return is_likely_file(line.file) ? line.file : file_in_name(function);
}

std::string_view path_of_jit_file(std::string_view name) {
  constexpr std::string_view kFileUrl = "file://";
  if (name.starts_with(kFileUrl)) name.remove_prefix(kFileUrl.size());
  return name;
}

JitLines::JitLines(Parser& parser, const JitSamples& samples) : lines_(samples.functions.size()) {
  const auto has_lines = [](const SampledJitCode& code) { return code.debug_info.bytes != 0; };
  if (std::ranges::none_of(samples.functions, has_lines)) return;
  read_jit_code(parser, samples, false, [&](std::size_t i, const JitCodeAnswer& answer) {
    for (const JitLine& line : answer.lines) {
      const auto file = file_of_jit_line(line, samples.functions[i].name);
      lines_[i].push_back({.code_offset = line.code_offset,
                           .line = line.line,
                           .file = std::string(path_of_jit_file(file))});
    }
    std::ranges::stable_sort(lines_[i], {}, &Line::code_offset);
  });
}

const JitLines::Line* JitLines::at(std::uint32_t function, std::uint64_t code_offset) const {
  if (function >= lines_.size()) return nullptr;
  const std::vector<Line>& lines = lines_[function];
  const auto next = std::ranges::upper_bound(lines, code_offset, {}, &Line::code_offset);
  return next == lines.begin() ? nullptr : &*std::prev(next);
}

const JitLines::Line* JitLines::first(std::uint32_t function) const {
  return function < lines_.size() && !lines_[function].empty() ? &lines_[function].front()
                                                               : nullptr;
}

}  // namespace profd
