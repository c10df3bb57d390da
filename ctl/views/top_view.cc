#include "ctl/views/top_view.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>

#include "formats/base/utf8_text.h"

namespace profd {
namespace {

constexpr std::size_t kUsualHeight = 24;
constexpr std::size_t kUsualWidth = 80;

constexpr auto kHelpLines = std::to_array<std::string_view>({
    "Keys of profctl top",
    "",
    "up, down, j, k       select a process, or move in the functions",
    "PgUp, PgDn           the same by a page",
    "Home, End            the first, the last",
    "Tab, left, right     the other pane",
    "P  N  C  U           sort processes by CPU, pid, command, unit",
    "S  T  F              sort functions by self, total, name",
    "<  >                 sort the pane by another column",
    "R                    reverse the order of the pane",
    "space                pause, continue",
    "h, ?, F1             this help",
    "q, F10, Ctrl-C       quit",
    "",
    "Percent are of one CPU, in the time since the last refresh.",
});

// Sorts by `key`, then by what the list was sorted by before.
template <class Rows, class Key>
void sort_rows_by(Rows& rows, bool is_reversed, const Key& key) {
  std::ranges::stable_sort(rows, [&](const auto& a, const auto& b) {
    return is_reversed ? key(b) < key(a) : key(a) < key(b);
  });
}

// The lines of a text.
void append_lines(std::string_view text, std::vector<std::string>& lines) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

template <class T>
std::vector<T> shown_rows(const std::vector<T>& rows, std::size_t first, std::size_t count) {
  const std::size_t from = std::min(first, rows.size());
  const std::size_t to = std::min(rows.size(), from + count);
  return {rows.begin() + static_cast<std::ptrdiff_t>(from),
          rows.begin() + static_cast<std::ptrdiff_t>(to)};
}

}  // namespace

void TopView::Pane::move(std::ptrdiff_t rows, std::size_t count) {
  const auto last = static_cast<std::ptrdiff_t>(count) - 1;
  const auto wanted = static_cast<std::ptrdiff_t>(at) + rows;
  at = static_cast<std::size_t>(
      std::clamp<std::ptrdiff_t>(wanted, 0, std::max<std::ptrdiff_t>(last, 0)));
}

void TopView::Pane::fit(std::size_t rows, std::size_t count) {
  page = std::max<std::size_t>(rows, 1);
  if (at >= count) at = count == 0 ? 0 : count - 1;
  if (at < first) first = at;
  if (at >= first + page) first = at - page + 1;
  if (first + page > count) first = count > page ? count - page : 0;
}

void TopView::set_part(TopPart part) {
  if (is_paused_) return;
  message_.clear();
  has_part_ = true;
  const std::vector<TopProcess> former = std::exchange(processes_, {});
  part_ = std::move(part);
  processes_.reserve(part_.processes.size() + 2);
  processes_.push_back({.comm = "all", .value = part_.scope.all, .functions = part_.functions});
  processes_.insert(processes_.end(), part_.processes.begin(), part_.processes.end());
  keep_selected(former);
  most_processes_ = std::max(most_processes_, processes_.size());
  sort_processes();
  sort_functions();
}

// A process that used no CPU this time stays selected, and is shown without samples.
void TopView::keep_selected(const std::vector<TopProcess>& former) {
  if (std::ranges::find(processes_, selected_, &TopProcess::name) != processes_.end()) return;
  const auto known = std::ranges::find(former, selected_, &TopProcess::name);
  if (known == former.end()) return selected_.clear();
  processes_.push_back(*known);
  processes_.back().value = {};
  processes_.back().functions.clear();
}

void TopView::sort_processes() {
  if (processes_.empty()) return;
  std::vector<TopProcess> processes(std::make_move_iterator(processes_.begin() + 1),
                                    std::make_move_iterator(processes_.end()));
  const bool is_reversed = processes_pane_.is_reversed;
  sort_rows_by(processes, is_reversed, [](const TopProcess& process) {
    return std::tuple(-process.value.cpu_ns, -process.value.samples);
  });
  if (process_order_ == ProcessOrder::kPid) {
    sort_rows_by(processes, is_reversed, [](const TopProcess& process) { return process.pid; });
  } else if (process_order_ == ProcessOrder::kCommand) {
    sort_rows_by(processes, is_reversed,
                 [](const TopProcess& process) { return std::string_view(process.comm); });
  } else if (process_order_ == ProcessOrder::kUnit) {
    sort_rows_by(processes, is_reversed,
                 [](const TopProcess& process) { return std::string_view(process.unit); });
  }
  std::ranges::move(processes, processes_.begin() + 1);
  const auto selected = std::ranges::find(processes_, selected_, &TopProcess::name);
  processes_pane_.at = static_cast<std::size_t>(selected - processes_.begin());
}

void TopView::sort_functions() {
  if (processes_.empty()) return;
  functions_ = processes_[processes_pane_.at].functions;
  const bool is_reversed = functions_pane_.is_reversed;
  if (function_order_ == FunctionOrder::kTotal) {
    sort_rows_by(functions_, is_reversed, [](const ReportRow& row) {
      return std::tuple(-row.total.cpu_ns, -row.total.samples);
    });
  } else if (function_order_ == FunctionOrder::kName) {
    sort_rows_by(functions_, is_reversed,
                 [](const ReportRow& row) { return std::string_view(row.group.name); });
  } else {
    sort_rows_by(functions_, is_reversed, [](const ReportRow& row) {
      return std::tuple(-row.self.cpu_ns, -row.self.samples);
    });
  }
}

void TopView::select() {
  if (processes_.empty()) return;
  selected_ = processes_[processes_pane_.at].name;
  functions_pane_ = {.is_reversed = functions_pane_.is_reversed};
  sort_functions();
}

void TopView::move(std::ptrdiff_t rows) {
  pane().move(rows, pane_rows());
  if (!in_functions_) select();
}

void TopView::move_to_end(bool is_last) {
  const auto rows = static_cast<std::ptrdiff_t>(pane_rows());
  move(is_last ? rows : -rows);
}

void TopView::sort_by(ProcessOrder order) {
  process_order_ = order;
  sort_processes();
}

void TopView::sort_by(FunctionOrder order) {
  function_order_ = order;
  sort_functions();
}

void TopView::change_order(int step) {
  const auto next = [step](auto order, int count) {
    const int number = (static_cast<int>(order) + step + count) % count;
    return static_cast<decltype(order)>(number);
  };
  if (in_functions_) {
    sort_by(next(function_order_, static_cast<int>(FunctionOrder::kName) + 1));
  } else {
    sort_by(next(process_order_, static_cast<int>(ProcessOrder::kUnit) + 1));
  }
}

void TopView::reverse() {
  pane().is_reversed = !pane().is_reversed;
  sort_processes();
  sort_functions();
}

TopView::Answer TopView::press(const Key& key) {
  if (shows_help_ && key.code != KeyCode::kQuit && key.character != 'q') {
    shows_help_ = false;
    return Answer::kRedraw;
  }
  const auto page = static_cast<std::ptrdiff_t>(pane().page);
  switch (key.code) {
    case KeyCode::kCharacter:
      return press_character(key.character);
    case KeyCode::kUp:
      move(-1);
      break;
    case KeyCode::kDown:
      move(1);
      break;
    case KeyCode::kPageUp:
      move(-page);
      break;
    case KeyCode::kPageDown:
      move(page);
      break;
    case KeyCode::kHome:
    case KeyCode::kEnd:
      move_to_end(key.code == KeyCode::kEnd);
      break;
    case KeyCode::kTab:
    case KeyCode::kLeft:
    case KeyCode::kRight:
      in_functions_ = !in_functions_;
      break;
    case KeyCode::kHelp:
      shows_help_ = true;
      break;
    case KeyCode::kQuit:
      return Answer::kQuit;
    case KeyCode::kEscape:
      return Answer::kNothing;
  }
  return Answer::kRedraw;
}

TopView::Answer TopView::press_character(char character) {
  switch (character) {
    case 'q':
      return Answer::kQuit;
    case 'h':
    case '?':
      shows_help_ = true;
      break;
    case ' ':
      is_paused_ = !is_paused_;
      break;
    case 'j':
    case 'k':
      move(character == 'j' ? 1 : -1);
      break;
    case 'P':
      sort_by(ProcessOrder::kCpu);
      break;
    case 'N':
      sort_by(ProcessOrder::kPid);
      break;
    case 'C':
      sort_by(ProcessOrder::kCommand);
      break;
    case 'U':
      sort_by(ProcessOrder::kUnit);
      break;
    case 'S':
      sort_by(FunctionOrder::kSelf);
      break;
    case 'T':
      sort_by(FunctionOrder::kTotal);
      break;
    case 'F':
      sort_by(FunctionOrder::kName);
      break;
    case '<':
    case '>':
      change_order(character == '>' ? 1 : -1);
      break;
    case 'R':
      reverse();
      break;
    default:
      return Answer::kNothing;
  }
  return Answer::kRedraw;
}

std::string TopView::head() const {
  std::string text = "profctl top: " + printable_utf8(target_, kMaxPrintableBytes);
  if (has_part_) text += ", " + top_sums_text(part_);
  return text;
}

std::string TopView::keys_line() const {
  constexpr auto kProcessOrders =
      std::to_array<std::string_view>({"CPU", "pid", "command", "unit"});
  constexpr auto kFunctionOrders = std::to_array<std::string_view>({"self", "total", "name"});
  if (is_paused_) return "PAUSED: space continues";
  if (!message_.empty()) return printable_utf8(message_, kMaxPrintableBytes);
  const Pane& shown = in_functions_ ? functions_pane_ : processes_pane_;
  const std::string_view order = in_functions_
                                     ? kFunctionOrders.at(static_cast<std::size_t>(function_order_))
                                     : kProcessOrders.at(static_cast<std::size_t>(process_order_));
  return std::string(in_functions_ ? "functions" : "processes") + " by " + std::string(order) +
         (shown.is_reversed ? ", reversed" : "") + "; h help, q quit";
}

std::vector<std::string> TopView::lines(const Screen& screen) {
  const std::size_t height = screen.height == 0 ? kUsualHeight : screen.height;
  Screen fitting = screen;
  if (fitting.width == 0) fitting.width = kUsualWidth;
  std::vector<std::string> lines;
  if (shows_help_) {
    lines.assign(kHelpLines.begin(), kHelpLines.end());
  } else {
    lines.push_back(colored(start_that_fits(head(), fitting.width), TextColor::kBold, screen));
    lines.push_back(start_that_fits(keys_line(), fitting.width));
    // Titles of both tables and a line between them.
    constexpr std::size_t kOtherLines = 5;
    const std::size_t rows = height > kOtherLines ? height - kOtherLines : 2;
    const std::size_t processes = std::clamp<std::size_t>(rows * 2 / 5, 1, most_processes_);
    processes_pane_.fit(processes, processes_.size());
    functions_pane_.fit(rows - processes, functions_.size());
    append_lines(
        processes_table(part_.scope, shown_rows(processes_, processes_pane_.first, processes),
                        processes_pane_.at - processes_pane_.first, fitting),
        lines);
    lines.resize(3 + processes);  // so that the functions stay where they are
    const std::string of =
        selected_.empty() ? "all processes" : printable_utf8(selected_, kMaxPrintableBytes);
    lines.push_back(
        colored(start_that_fits("functions of " + of, fitting.width), TextColor::kBold, screen));
    const std::size_t marked =
        in_functions_ ? functions_pane_.at - functions_pane_.first : kNoneMarked;
    append_lines(
        functions_table(part_.scope,
                        shown_rows(functions_, functions_pane_.first, functions_pane_.page), marked,
                        fitting),
        lines);
  }
  if (lines.size() > height) lines.resize(height);
  return lines;
}

}  // namespace profd
