#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "ctl/commands/commands.h"
#include "ctl/output/text.h"

namespace profd {
namespace {

constexpr std::size_t kShownContainerChars = 12;  // as docker shows them

bool is_of(const ProcessShare& process, const TargetRequest& target) {
  if (target.empty()) return true;
  const auto is_unit = [&process](const std::string& unit) { return process.unit == unit; };
  const auto is_container = [&process](const std::string& container) {
    return process.container && process.container->starts_with(container);
  };
  return std::ranges::any_of(target.units, is_unit) ||
         std::ranges::any_of(target.containers, is_container);
}

std::string complete_text(const ProcessShare& process) {
  if (process.user_samples == 0) return "-";
  return percent_text(100 * static_cast<double>(process.complete_samples) /
                      static_cast<double>(process.user_samples));
}

// "Node.js 99.8% of 1234 in jit-812.dump": the runtime, how many of the samples in its code have
// names, how many functions it told, and where.
std::string code_text(const ProcessShare& process) {
  if (!process.jit || process.jit->samples == 0) return "-";
  const JitNames& jit = *process.jit;
  const double named = static_cast<double>(jit.named_samples) / static_cast<double>(jit.samples);
  std::string text =
      (jit.runtime.empty() ? "unknown" : jit.runtime) + " " + percent_text(100 * named) + " named";
  if (jit.file.empty()) return text;
  return text + ", " + std::to_string(jit.functions) + " functions in " + jit.file;
}

std::vector<std::string> row_of(const ProcessShare& process) {
  return {percent_text(process.cpu_percent),
          std::to_string(process.pid),
          printable(process.comm),
          printable(process.unit.value_or("-")),
          printable(process.container.value_or("-").substr(0, kShownContainerChars)),
          std::to_string(process.samples),
          complete_text(process),
          printable(code_text(process))};
}

void print_processes(const WindowShares& window, std::ostream& out) {
  out << local_text(window.started) << ", " << duration_text(std::round(window.seconds)) << ": "
      << window.samples << " samples, " << sum_of(window.lost) << " lost\n\n";
  std::vector<std::vector<std::string>> rows{
      {"CPU", "PID", "COMMAND", "UNIT", "CONTAINER", "SAMPLES", "COMPLETE", "JIT CODE"}};
  for (const ProcessShare& process : window.processes) rows.push_back(row_of(process));
  print_table(rows, out);
}

}  // namespace

int run_ps(Client& client, const Options& options, const Console& console) {
  auto window = client.last_window();
  if (!window) return report(console, window.error());
  std::erase_if(window->processes, [&options](const ProcessShare& process) {
    return !is_of(process, options.request.target);
  });
  if (window->processes.empty() && !options.request.target.empty()) {
    return report(console, fail(ErrorCode::kNotFound, "no process matched",
                                "'profctl ps' without -u and -c shows the units and containers "
                                "that used the CPU in the last window"));
  }
  if (window->processes.size() > options.limit) window->processes.resize(options.limit);
  if (options.json) {
    console.out << to_json(*window) << "\n";
  } else {
    print_processes(*window, console.out);
  }
  return kExitOk;
}

}  // namespace profd
