#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <string>

#include "ctl/client/caller_rights.h"
#include "ctl/commands/hidden_processes.h"
#include "ctl/commands/history_answers.h"
#include "ctl/commands/subcommand.h"
#include "ctl/commands/target_history.h"
#include "ctl/output/columns.h"
#include "ctl/output/text.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

// "cc1plus x14 121 %, backup.service 44.0 %"
std::string hottest_text(const WindowShares& window) {
  constexpr std::size_t kMaxGroups = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(window.groups.size(), kMaxGroups); ++i) {
    text += (i == 0 ? "" : ", ") + group_text(window.groups[i]);
  }
  return text;
}

// A number of samples, or the time of blocks, whose samples are microseconds.
std::string amount_text(std::uint64_t samples, bool of_blocks) {
  constexpr double kUsOfSecond = 1e6;
  return of_blocks ? duration_text(std::round(static_cast<double>(samples) / kUsOfSecond))
                   : std::to_string(samples);
}

double most_of(const History& history) {
  double most = 0;
  for (const WindowShares& window : history.windows) most = std::max(most, window.cpu_percent);
  return most;
}

// The bars are as long as the window that used most is full. On a terminal of 80 columns they
// stay, and the columns behind them are left out.
void print_history(const History& history, bool of_blocks, bool has_lost, const Console& console) {
  constexpr std::size_t kBarColumns = 16;
  const double most = most_of(history);
  FittingTable table(
      {{.title = "STARTED", .kind = ColumnKind::kText},
       {.title = of_blocks ? "OFF CPU" : "CPU"},
       {.title = "", .kind = ColumnKind::kOptional},
       {.title = "DURATION", .kind = ColumnKind::kOptional},
       {.title = of_blocks ? "TIME" : "SAMPLES", .is_optional = true},
       {.title = "LOST", .is_optional = true},
       {.title = of_blocks ? "MOST" : "HOTTEST", .kind = ColumnKind::kName, .keeps_start = true}});
  for (const WindowShares& window : history.windows) {
    table.add({{local_text(window.started)},
               {cpu_text(window.cpu_percent)},
               {bar_text(most > 0 ? window.cpu_percent / most : 0, kBarColumns)},
               {duration_text(std::round(window.seconds))},
               {amount_text(window.samples, of_blocks)},
               {has_lost ? amount_text(sum_of(window.lost), of_blocks) : "-"},
               {hottest_text(window)}});
  }
  console.out << table.text(console.screen);
  if (history.left_out != 0) {
    say_not_shown(counted(history.left_out, "older window"), "--until, --limit or --all", console);
  }
}

void say_lacking(std::size_t lacking, const Console& console) {
  if (lacking == 0) return;
  console.err << "profctl: " << counted(lacking, "window") << " without the target "
              << (lacking == 1 ? "is" : "are") << " not shown\n";
}

class ShowHistory final : public Subcommand {
 public:
  ShowHistory()
      : Subcommand("history", "Show CPU use over time, and who used most in each window") {}

  void add_options(OptionList& list) override {
    add_processes(list, request_.target, "--comm");
    add_range(list, request_.range);
    add_history_event(list, request_.event);
    list.option("-n,--limit", "N", "Show the newest N windows, 1 to 1000 [20; with --json 100]",
                {request_.limit, parse_limit_not_name});
    list.flag("--all", "Show the newest 1000 windows", all_);
    list.rule([this, &list]() -> Result<void> {
      has_limit_ = list.given("--limit");
      if (all_ && has_limit_) {
        return invalid_argument("--all and --limit exclude each other", "leave out one of them");
      }
      if (request_.limit <= HistoryRequest::kMaxWindows) return {};
      return invalid_argument("invalid --limit " + std::to_string(request_.limit) + " (1 to 1000)",
                              "the limit is for the newest windows of the time range");
    });
  }

  Result<int> run(Client& client, const Console& console) override {
    if (all_) request_.limit = HistoryRequest::kMaxWindows;
    if (!all_ && !has_limit_ && !console.json) request_.limit = kShownRows;
    const Result<TargetHistory> found = read_target_history(client, request_);
    if (!found) return found.error();
    if (found->history.windows.empty()) {
      return found->lacking == 0 ? no_windows_in(request_.range, client, request_.event)
                                 : nothing_matched_in(found->range);
    }
    if (!console.json && sees_own_processes_alone()) say_that_others_are_hidden(console);
    const bool has_lost = knows_lost_samples(request_.target);
    if (console.json) {
      console.out << to_json(found->history) << "\n";
      return kExitOk;
    }
    print_history(found->history, asks_for_blocks(request_.event), has_lost, console);
    say_lacking(found->lacking, console);
    return kExitOk;
  }

 private:
  HistoryRequest request_;
  bool all_ = false;
  bool has_limit_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_history() { return std::make_unique<ShowHistory>(); }

}  // namespace profd
