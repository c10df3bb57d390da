#include "daemon/names/name_table.h"

#include <utility>
#include <vector>

namespace profd {
namespace {

// Of the table of entries: a slot for each and a byte that says what it has.
constexpr std::size_t kBytesOfSlot = sizeof(std::pair<const std::uint64_t, NameTable::Entry>) + 1;

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

void NameTable::set(const AddressNames& names, bool may_have_lines, bool had_debug_file) {
  std::vector<Line> lines;
  lines.reserve(names.frames.size());
  for (const CodeFrame& frame : names.frames) {
    const Function function{.name = texts_.add(frame.name),
                            .system_name = texts_.add(frame.system_name),
                            .file = texts_.add(frame.file),
                            .start_line = frame.start_line};
    lines.push_back({.function = functions_.add(function), .line = frame.line});
  }
  entries_.insert_or_assign(names.address, Entry{.lines = lines_.add(lines),
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
  return sizeof *this + texts_.bytes() + functions_.bytes() + lines_.bytes() +
         entries_.bucket_count() * kBytesOfSlot;
}

}  // namespace profd
