#include "ctl/web/source_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "ctl/sources/file_reader.h"
#include "ctl/views/source_lines.h"
#include "formats/base/json_text.h"
#include "formats/base/utf8_text.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::size_t kMostSourceBytes = std::size_t{8} << 20;
constexpr std::size_t kMostLines = 2'000;
constexpr std::uint32_t kLinesAround = 3;  // without samples, before and after

// A tab, which would not be printable, is an indentation.
std::string with_blanks(std::string_view line) {
  std::string text;
  for (const char c : line) text += c == '\t' ? std::string(4, ' ') : std::string(1, c);
  return text;
}

// The texts of a file's lines; none where it can't be read.
std::vector<std::string> lines_of_file(const std::string& path) {
  std::vector<std::string> lines;
  if (!path.starts_with('/')) return lines;
  const auto file = SourceFile::open(path);
  if (!file) return lines;
  const auto bytes = read_all(file->fd(), path, kMostSourceBytes);
  if (!bytes) return lines;
  std::string_view rest = *bytes;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    lines.push_back(printable_utf8(with_blanks(line), kMaxPrintableBytes));
  }
  return lines;
}

object json_of_value(const SampleValue& value) {
  return {{"samples", value.samples}, {"cpu_ns", value.cpu_ns}};
}

class TextOfLines {
 public:
  // The lines of one file, in their order.
  void add_file(std::vector<SourceLine> lines) {
    const std::vector<std::string> texts = lines_of_file(lines.front().file);
    if (texts.empty()) {
      for (const SourceLine& line : lines) add(line, nullptr);
      return;
    }
    std::uint32_t next = 1;
    for (const SourceLine& line : lines) {
      const std::uint32_t first = line.line > kLinesAround ? line.line - kLinesAround : 1;
      next = std::max(next, first);
      for (; next < line.line; ++next) add_between(line.file, next, texts);
      add(line, text_of(texts, line.line));
      next = line.line + 1;
      end_ = line.line;
    }
    for (; next <= end_ + kLinesAround; ++next) add_between(lines.front().file, next, texts);
  }

  [[nodiscard]] array take() { return std::move(list_); }

 private:
  static const std::string* text_of(const std::vector<std::string>& texts, std::uint32_t line) {
    return line == 0 || line > texts.size() ? nullptr : &texts[line - 1];
  }

  void add_between(const std::string& file, std::uint32_t line,
                   const std::vector<std::string>& texts) {
    if (text_of(texts, line) != nullptr) {
      add({.file = file, .line = line, .self = {}, .total = {}}, text_of(texts, line));
    }
  }

  void add(const SourceLine& line, const std::string* text) {
    if (list_.size() == kMostLines) return;
    object json{{"file", printable_utf8(line.file, kMaxPrintableBytes)},
                {"line", line.line},
                {"self", json_of_value(line.self)},
                {"total", json_of_value(line.total)}};
    if (text != nullptr) json.emplace("text", *text);
    list_.push_back(std::move(json));
  }

  array list_;
  std::uint32_t end_ = 0;  // the last line with samples
};

}  // namespace

std::string source_text_json(const Selection& selection, const std::vector<bool>& functions) {
  SampleValue shown;
  const std::vector<SourceLine> lines = source_lines(selection, functions, shown);
  TextOfLines texts;
  for (auto at = lines.begin(); at != lines.end();) {
    const auto end = std::find_if(at, lines.end(),
                                  [&](const SourceLine& line) { return line.file != at->file; });
    texts.add_file({at, end});
    at = end;
  }
  return json_text(object{{"all", json_of_value(selection.samples().sum())},
                          {"shown", json_of_value(shown)},
                          {"has_cpu_time", selection.samples().has_cpu_time},
                          {"lines", texts.take()}});
}

}  // namespace profd
