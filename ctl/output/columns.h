// A table that fits the width of a terminal.
//
// One column takes the width that is left, and its texts are cut to it; others may be left out
// where that is too narrow. The texts of texts may have any bytes: they are made safe for a
// terminal.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ctl/output/terminal.h"

namespace profd {

enum class ColumnKind : std::uint8_t {
  kNumber,    // aligned to the right
  kOptional,  // left out where the terminal is narrow
  kName,      // takes what is left; at most one column
};

struct ColumnHead {
  std::string title;
  ColumnKind kind = ColumnKind::kNumber;
  bool is_optional = false;  // of a number: as kOptional
};

struct TableText {
  std::string text;
  TextColor color = TextColor::kNone;
  std::size_t indent = 0;  // blanks before the text
};

class FittingTable {
 public:
  explicit FittingTable(std::vector<ColumnHead> heads) : heads_(std::move(heads)) {}

  // As many texts as there are columns.
  void add(std::vector<TableText> row);

  // The lines, the titles first.
  [[nodiscard]] std::string text(const Screen& screen) const;

 private:
  struct Layout {
    std::vector<std::size_t> widths;  // 0: the column is left out
  };
  [[nodiscard]] Layout layout(const Screen& screen) const;
  void append_row(const std::vector<TableText>& row, const Layout& layout, const Screen& screen,
                  std::string& text) const;

  std::vector<ColumnHead> heads_;
  std::vector<std::vector<TableText>> rows_;
};

}  // namespace profd
