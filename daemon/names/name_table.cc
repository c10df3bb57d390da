#include "daemon/names/name_table.h"

#include <string>
#include <vector>

namespace profd {
namespace {

// The memory of an element in its table: twice its size, since a vector may grow beyond it, and
// its part of the hash index.
template <class T>
constexpr std::size_t kBytesOf = 2 * sizeof(T) + 40;
constexpr std::size_t kBytesOfText = kBytesOf<std::string>;

}  // namespace

void add_to(SeededHash& hash, const NameTable::Function& function) {
  hash.add(std::uint64_t{function.name} << 32 | function.system_name);
  hash.add(std::uint64_t{function.file} << 32 | function.start_line);
}

void add_to(SeededHash& hash, const NameTable::Line& line) {
  hash.add(std::uint64_t{line.function} << 32 | line.line);
}

NameTable::NameTable() : texts_(random_seed()), functions_(random_seed()), lines_(random_seed()) {
  (void)texts_.add({});
  (void)lines_.add({});
}

std::uint32_t NameTable::add_text(std::string_view text) {
  const std::uint32_t known = texts_.size();
  const std::uint32_t index = texts_.add(text);
  if (index == known) text_bytes_ += text.size();
  return index;
}

void NameTable::set(const AddressNames& names, bool may_have_lines, bool had_debug_file) {
  std::vector<Line> lines;
  lines.reserve(names.frames.size());
  for (const CodeFrame& frame : names.frames) {
    const Function function{.name = add_text(frame.name),
                            .system_name = add_text(frame.system_name),
                            .file = add_text(frame.file),
                            .start_line = frame.start_line};
    lines.push_back({.function = functions_.add(function), .line = frame.line});
  }
  const std::uint32_t known = lines_.size();
  const std::uint32_t list = lines_.add(lines);
  if (list == known) line_count_ += lines.size();
  entries_.insert_or_assign(names.address, Entry{.lines = list,
                                                 .source = names.source,
                                                 .is_folded = names.is_folded,
                                                 .may_have_lines = may_have_lines,
                                                 .had_debug_file = had_debug_file});
}

void NameTable::mark_stale() {
  for (auto& [address, entry] : entries_) {
    const auto frames = lines(entry);
    entry.is_stale = frames.empty() || frames.front().line == 0;
  }
}

const NameTable::Entry* NameTable::find(std::uint64_t address) const {
  const auto found = entries_.find(address);
  return found == entries_.end() ? nullptr : &found->second;
}

CodeFrame NameTable::frame(const Line& line) const {
  const Function& function = functions_[line.function];
  return {.name = std::string(text(function.name)),
          .system_name = std::string(text(function.system_name)),
          .file = std::string(text(function.file)),
          .line = line.line,
          .start_line = function.start_line};
}

std::size_t NameTable::bytes() const {
  return text_bytes_ + texts_.size() * kBytesOfText + functions_.size() * kBytesOf<Function> +
         lines_.size() * kBytesOf<std::size_t> + line_count_ * 2 * sizeof(Line) +
         entries_.size() * kBytesOf<Entry>;
}

}  // namespace profd
