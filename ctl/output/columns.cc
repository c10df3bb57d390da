#include "ctl/output/columns.h"

#include <algorithm>
#include <utility>

#include "ctl/output/console.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kUsefulName = 28;  // columns; below, optional columns are left out
constexpr std::size_t kSmallestName = 8;
constexpr std::size_t kWidestOptional = 24;
constexpr std::size_t kWidestName = 160;  // without a terminal: so that numbers stay together

std::size_t width_of(const TableText& one) { return one.indent + columns_of(one.text); }

}  // namespace

void FittingTable::add(std::vector<TableText> row) {
  for (TableText& one : row) one.text = printable_utf8(one.text, kMaxPrintableBytes);
  rows_.push_back(std::move(row));
}

FittingTable::Layout FittingTable::layout(const Screen& screen) const {
  Layout layout;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    std::size_t width = columns_of(heads_[i].title);
    for (const auto& row : rows_) width = std::max(width, width_of(row[i]));
    if (heads_[i].kind == ColumnKind::kOptional) width = std::min(width, kWidestOptional);
    if (heads_[i].kind == ColumnKind::kName && !screen.is_terminal()) {
      width = std::min(width, kWidestName);
    }
    layout.widths.push_back(width);
  }
  if (!screen.is_terminal()) return layout;
  const auto name = std::ranges::find(heads_, ColumnKind::kName, &ColumnHead::kind);
  if (name == heads_.end()) return layout;
  const auto at = static_cast<std::size_t>(name - heads_.begin());
  const auto left_for_name = [&] {
    std::size_t others = 0;
    for (std::size_t i = 0; i < layout.widths.size(); ++i) {
      if (i != at && layout.widths[i] != 0) others += layout.widths[i] + kGap;
    }
    return screen.width > others ? screen.width - others : 0;
  };
  for (std::size_t i = heads_.size(); i-- > 0;) {
    const bool may_go = heads_[i].is_optional || heads_[i].kind == ColumnKind::kOptional;
    if (may_go && left_for_name() < std::min(layout.widths[at], kUsefulName)) layout.widths[i] = 0;
  }
  layout.widths[at] = std::min(layout.widths[at], std::max(left_for_name(), kSmallestName));
  return layout;
}

void FittingTable::append_row(const std::vector<TableText>& row, const Layout& layout,
                              const Screen& screen, std::string& text) const {
  std::string line;
  std::size_t blanks = 0;  // before the next text; none at the end of a line
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::size_t width = layout.widths[i];
    if (width == 0) continue;
    const std::size_t indent = std::min(row[i].indent, width / 2);
    const std::string shown = end_that_fits(row[i].text, width - indent);
    const std::size_t rest = width - indent - columns_of(shown);
    const bool is_number = heads_[i].kind == ColumnKind::kNumber;
    blanks += indent + (is_number ? rest : 0);
    if (!shown.empty()) {
      line.append(blanks, ' ').append(colored(shown, row[i].color, screen));
      blanks = 0;
    }
    blanks += kGap + (is_number ? 0 : rest);
  }
  text += line + "\n";
}

std::string FittingTable::text(const Screen& screen) const {
  const Layout widths = layout(screen);
  std::string text;
  std::vector<TableText> titles;
  for (const ColumnHead& head : heads_) titles.push_back({head.title, TextColor::kBold});
  append_row(titles, widths, screen, text);
  for (const auto& row : rows_) append_row(row, widths, screen, text);
  return text;
}

}  // namespace profd
