// Writes DWARF 4 for code that a compiler has left: one compilation unit with a subprogram and a
// line sequence for each function (DWARF 4, 3.3.1, 6.2 and 7.5). What it takes for readers to list
// sources: `go tool pprof` finds names nowhere else, and needs a line for them.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace profd {

struct DwarfSections {
  std::string abbrev;  // .debug_abbrev
  std::string info;    // .debug_info
  std::string line;    // .debug_line
};

class DwarfLinesWriter {
 public:
  // Of the unit. Relative file names start from `directory`.
  DwarfLinesWriter(std::string_view name, std::string_view directory);

  // Returns the file's number. Before the first function. Cut at a NUL.
  std::uint32_t add_file(std::string_view name);

  // A function's lines come right after it, by rising address. The first line counts from the
  // function's start on, the last to its end.
  void begin_function(std::string_view name, std::uint64_t address, std::uint64_t bytes,
                      std::uint32_t file, std::uint32_t line);
  void add_line(std::uint64_t address, std::uint32_t file, std::uint32_t line,
                std::uint32_t column);
  void end_function();

  // Once. `start` to `end` has all functions in it.
  [[nodiscard]] DwarfSections finish(std::uint64_t start, std::uint64_t end);

 private:
  std::string name_;
  std::string directory_;
  std::string file_table_;
  std::string subprograms_;
  std::string rows_;
  std::uint32_t files_ = 0;
  std::uint64_t limit_ = 0;  // of the function that is being written
  // The line program's registers.
  std::uint64_t address_ = 0;
  std::uint32_t file_ = 1;
  std::uint32_t line_ = 1;
  std::uint32_t column_ = 0;
};

}  // namespace profd
