#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "ctl/commands/commands.h"
#include "ctl/output/text.h"

namespace profd {
namespace {

constexpr std::size_t kShownProcesses = 3;

// "nginx 45.0 %, java 3.2 %"
std::string hottest_text(const WindowShares& window) {
  std::string text;
  for (std::size_t i = 0; i < std::min(window.processes.size(), kShownProcesses); ++i) {
    const ProcessShare& process = window.processes[i];
    text.append(text.empty() ? "" : ", ")
        .append(printable(process.comm))
        .append(" ")
        .append(percent_text(process.cpu_percent));
  }
  return text;
}

void print_history(const History& history, const Console& console) {
  std::vector<std::vector<std::string>> rows{{"STARTED", "LASTED", "SAMPLES", "LOST", "HOTTEST"}};
  for (const WindowShares& window : history.windows) {
    rows.push_back({local_text(window.started), duration_text(std::round(window.seconds)),
                    std::to_string(window.samples), std::to_string(sum_of(window.lost)),
                    hottest_text(window)});
  }
  print_table(rows, console.out);
  if (history.left_out != 0) {
    console.err << "profctl: " << history.left_out
                << " older windows are not shown: see --until and --limit\n";
  }
}

}  // namespace

int run_history(Client& client, const Options& options, const Console& console) {
  const auto history = client.history({.range = options.range, .limit = options.limit});
  if (!history) return report(console, history.error());
  if (options.json) {
    console.out << to_json(*history) << "\n";
  } else {
    print_history(*history, console);
  }
  return kExitOk;
}

}  // namespace profd
