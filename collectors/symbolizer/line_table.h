// The line table of a unit (DWARF 5, 6.2; DWARF 2 to 4 likewise): which line of which file is at
// some addresses.
//
// libdw makes a sorted list of all rows of a unit before it answers for one address, which takes
// eight times as long as this, and cannot be left when the time is spent.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/symbolizer/dwarf_budget.h"
#include "collectors/symbolizer/dwarf_units.h"

namespace profd::symbolizer {

// Views of a mapped file, decompressed.
struct LineSections {
  std::string_view lines;         // .debug_line
  std::string_view line_strings;  // .debug_line_str
  std::string_view strings;       // .debug_str
};

struct LineRow {
  std::uint64_t file = 0;  // its number in the table
  std::uint32_t line = 0;  // 0: unknown
  bool is_known = false;   // false: no row contains the address
};

class LineTable {
 public:
  // The largest units of Chromium have some thousand files. An entry of one byte takes 24 here.
  static constexpr std::size_t kMaxEntries = 65'536;

  // The table at an offset of .debug_line. None where its header is malformed, or has more than
  // kMaxEntries directories or files, or where the budget ends. Borrows the sections.
  static std::optional<LineTable> read(const LineSections& sections, std::uint64_t offset,
                                       DwarfBudget& budget);

  // A row for each address, in their order, which is ascending. A malformed program ends with the
  // rows before. Rows may be missing where the budget ends.
  [[nodiscard]] std::vector<LineRow> find_rows(std::span<const WantedAddress> addresses,
                                               DwarfBudget& budget) const;

  // Empty for a number that the table does not have. A relative path starts at `directory`, where
  // the unit was compiled.
  [[nodiscard]] std::string path_of(std::uint64_t file, std::string_view directory) const;

 private:
  friend class LineHeaderReader;
  friend class LineProgram;

  struct File {
    std::string_view name;
    std::uint64_t directory = 0;
  };

  std::uint16_t version_ = 0;
  std::uint8_t instruction_bytes_ = 1;
  std::int8_t line_base_ = 0;
  std::uint8_t line_range_ = 1;
  std::uint8_t opcode_base_ = 1;
  std::string_view operand_counts_;  // of the opcodes from 1 on
  std::vector<File> directories_;
  std::vector<File> files_;
  std::string_view program_;
};

}  // namespace profd::symbolizer
