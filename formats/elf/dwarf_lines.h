// Writes DWARF 4 for images: one compilation unit, with a subprogram and a line sequence for each
// function (DWARF 4, 3.3.1, 6.2 and 7.5), and the functions that are inlined in it (3.3.8). Readers
// need this to list sources; of JIT code `go tool pprof` reads names from nowhere else, and needs a
// line for each.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace profd {

struct DwarfSections {
  std::string abbrev;  // .debug_abbrev
  std::string info;    // .debug_info
  std::string line;    // .debug_line
};

class DwarfLinesWriter {
 public:
  // `name` and `directory` are those of the unit; relative file names start at `directory`.
  DwarfLinesWriter(std::string_view name, std::string_view directory);

  // Returns the number of the file. `name` is cut at a NUL. Call it before begin_function().
  std::uint32_t add_file(std::string_view name);

  // The lines of a function follow it, by ascending address. The line of begin_function() counts
  // from the start of the function, the last one to its end.
  void begin_function(std::string_view name, std::uint64_t address, std::uint64_t bytes,
                      std::uint32_t file, std::uint32_t line);
  void add_line(std::uint64_t address, std::uint32_t file, std::uint32_t line,
                std::uint32_t column);
  // A function that is inlined at [address, address + bytes) of the function, or of the inlined one
  // that has begun and not ended, which calls it at that line.
  void begin_inlined(std::string_view name, std::uint64_t address, std::uint64_t bytes,
                     std::uint32_t call_file, std::uint32_t call_line);
  void end_inlined();
  void end_function();

  // Call it once. [start, end) contains all functions.
  [[nodiscard]] DwarfSections finish(std::uint64_t start, std::uint64_t end);

 private:
  // Where the description of an inlined function starts in the unit. Added if there is none.
  std::uint32_t abstract_of(std::string_view name);

  std::string unit_;  // its start, up to the children
  std::string file_table_;
  std::string abstracts_;  // of inlined functions, the first children of the unit
  std::map<std::string, std::uint32_t, std::less<>> abstract_offsets_;
  std::string subprograms_;
  std::size_t subprogram_ = 0;  // where the current one starts in them
  std::string rows_;
  std::uint32_t files_ = 0;
  std::uint64_t function_end_ = 0;
  // The registers of the line program.
  std::uint64_t address_ = 0;
  std::uint32_t file_ = 1;
  std::uint32_t line_ = 1;
  std::uint32_t column_ = 0;
};

}  // namespace profd
