#include <algorithm>
#include <cmath>
#include <ostream>

#include "ctl/commands/subcommand.h"
#include "ctl/options/values.h"
#include "ctl/output/text.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

// "nginx 45.0 %, java 3.2 %"
std::string hottest_text(const WindowShares& window) {
  constexpr std::size_t kMaxProcesses = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(window.processes.size(), kMaxProcesses); ++i) {
    const ProcessShare& process = window.processes[i];
    text += (i == 0 ? "" : ", ") + process.comm + " " + percent_text(process.cpu_percent);
  }
  return text;
}

void print_history(const History& history, const Console& console) {
  TableRows rows{{"STARTED", "DURATION", "SAMPLES", "LOST", "HOTTEST"}};
  for (const WindowShares& window : history.windows) {
    rows.push_back({local_text(window.started), duration_text(std::round(window.seconds)),
                    std::to_string(window.samples), std::to_string(sum_of(window.lost)),
                    hottest_text(window)});
  }
  print_table(std::move(rows), console.out);
  if (history.left_out != 0) {
    console.err << "profctl: " << counted(history.left_out, "older window")
                << " not shown: use --until or --limit\n";
  }
}

class ShowHistory final : public Subcommand {
 public:
  ShowHistory()
      : Subcommand("history", "List the windows of continuous mode and the hottest processes") {}

  void add_options(OptionList& list) override {
    add_range(list, request_.range);
    list.option("-n,--limit", "N", "Show the newest N windows, 1 to 1000 [100]",
                {request_.limit, parse_limit});
    list.rule([this]() -> Result<void> {
      if (request_.limit <= HistoryRequest::kMaxWindows) return {};
      return invalid_argument("invalid --limit " + std::to_string(request_.limit) + " (1 to 1000)",
                              "the limit is for the newest windows of the time range");
    });
  }

  Result<int> run(Client& client, const Console& console) override {
    return print_answer(client.history(request_), console, print_history);
  }

 private:
  HistoryRequest request_;
};

}  // namespace

std::unique_ptr<Subcommand> make_history() { return std::make_unique<ShowHistory>(); }

}  // namespace profd
