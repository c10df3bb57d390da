// A table that fits the width of a terminal.
//
// The columns of names share the width that is left, and their texts are cut to it; others may be
// left out where that is too narrow. Without a terminal no text is cut. The texts may have any
// bytes: they are made safe for a terminal.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ctl/output/terminal.h"

namespace profd {

enum class ColumnKind : std::uint8_t {
  kNumber,    // aligned to the right
  kText,      // aligned to the left
  kOptional,  // the same; left out where the terminal is narrow, the last one first
  kName,      // takes what is left; several share it
};

struct ColumnHead {
  std::string title;
  ColumnKind kind = ColumnKind::kNumber;
  bool is_optional = false;  // of a number: as kOptional
  bool keeps_start = false;  // of a text that is cut: its start, not its end
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
  void fit(std::size_t columns, Layout& layout) const;
  void share_among_names(std::size_t columns, Layout& layout) const;
  [[nodiscard]] std::size_t full_width(std::size_t column) const;
  [[nodiscard]] std::size_t left_for_names(std::size_t columns, const Layout& layout) const;
  [[nodiscard]] std::size_t useful_for_names(const Layout& layout) const;
  void append_row(const std::vector<TableText>& row, const Layout& layout, const Screen& screen,
                  std::string& text) const;

  std::vector<ColumnHead> heads_;
  std::vector<std::vector<TableText>> rows_;
};

}  // namespace profd
