#include "ctl/output/columns.h"

#include <algorithm>
#include <utility>

#include "ctl/output/console.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

constexpr std::size_t kGap = 2;
// Of the columns of names; below, optional columns are left out.
constexpr std::size_t kUsefulName = 28;
constexpr std::size_t kUsefulNames = 40;  // of several together
constexpr std::size_t kSmallestName = 8;
constexpr std::size_t kWidestOptional = 24;  // unless there is room at the end
constexpr std::size_t kWidestText = 160;     // without a terminal: longer ones stand out

std::size_t width_of(const TableText& one) { return one.indent + columns_of(one.text); }

bool is_name(const ColumnHead& head) { return head.kind == ColumnKind::kName; }

bool may_be_left_out(const ColumnHead& head) {
  return head.is_optional || head.kind == ColumnKind::kOptional;
}

}  // namespace

void FittingTable::add(std::vector<TableText> row) {
  for (TableText& one : row) one.text = printable_utf8(one.text, kMaxPrintableBytes);
  rows_.push_back(std::move(row));
}

std::size_t FittingTable::full_width(std::size_t column) const {
  std::size_t width = columns_of(heads_[column].title);
  for (const auto& row : rows_) width = std::max(width, width_of(row[column]));
  return width;
}

// There is a gap between two columns, and none behind the last one.
std::size_t FittingTable::left_for_names(std::size_t columns, const Layout& layout) const {
  std::size_t taken = 0;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    if (layout.widths[i] != 0) taken += kGap + (is_name(heads_[i]) ? 0 : layout.widths[i]);
  }
  return columns + kGap > taken ? columns + kGap - taken : 0;
}

std::size_t FittingTable::useful_for_names(const Layout& layout) const {
  std::size_t names = 0;
  std::size_t width = 0;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    if (!is_name(heads_[i])) continue;
    ++names;
    width += layout.widths[i];
  }
  return std::min(width, names > 1 ? kUsefulNames : kUsefulName);
}

// An equal part for each; what a narrow one does not need is for the others.
void FittingTable::share_among_names(std::size_t columns, Layout& layout) const {
  std::vector<std::size_t> names;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    if (is_name(heads_[i])) names.push_back(i);
  }
  std::ranges::stable_sort(names, {}, [&layout](std::size_t i) { return layout.widths[i]; });
  for (std::size_t done = 0; done < names.size(); ++done) {
    std::size_t& width = layout.widths[names[done]];
    width = std::min(width, std::max(columns / (names.size() - done), kSmallestName));
    columns -= std::min(columns, width);
  }
}

void FittingTable::fit(std::size_t columns, Layout& layout) const {
  const std::vector<std::size_t> full = layout.widths;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    if (heads_[i].kind != ColumnKind::kOptional) continue;
    layout.widths[i] = std::min(layout.widths[i], kWidestOptional);
  }
  if (std::ranges::none_of(heads_, is_name)) return;
  for (std::size_t i = heads_.size(); i-- > 0;) {
    const bool is_narrow = left_for_names(columns, layout) < useful_for_names(layout);
    if (is_narrow && may_be_left_out(heads_[i])) layout.widths[i] = 0;
  }
  share_among_names(left_for_names(columns, layout), layout);
  std::size_t room = left_for_names(columns, layout);
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    if (is_name(heads_[i])) room -= std::min(room, layout.widths[i]);
  }
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    if (layout.widths[i] == 0) continue;
    const std::size_t more = std::min(room, full[i] - layout.widths[i]);
    layout.widths[i] += more;
    room -= more;
  }
}

FittingTable::Layout FittingTable::layout(const Screen& screen) const {
  Layout layout;
  layout.widths.reserve(heads_.size());
  for (std::size_t i = 0; i < heads_.size(); ++i) layout.widths.push_back(full_width(i));
  if (screen.is_terminal()) {
    fit(screen.width, layout);
    return layout;
  }
  for (std::size_t& width : layout.widths) width = std::min(width, kWidestText);
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
    std::string shown = row[i].text;
    if (screen.is_terminal()) {
      shown = heads_[i].keeps_start ? start_that_fits(shown, width - indent)
                                    : end_that_fits(shown, width - indent);
    }
    const std::size_t used = indent + columns_of(shown);
    const std::size_t rest = width > used ? width - used : 0;
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
