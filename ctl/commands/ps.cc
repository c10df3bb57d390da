#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>

#include "ctl/commands/subcommand.h"
#include "ctl/options/values.h"
#include "ctl/output/text.h"

namespace profd {
namespace {

bool matches(const ProcessShare& process, const TargetRequest& target) {
  if (target.empty()) return true;
  const auto is_unit = [&process](const std::string& unit) { return process.unit == unit; };
  const auto is_container = [&process](const std::string& container) {
    return process.container && process.container->starts_with(container);
  };
  return std::ranges::any_of(target.units, is_unit) ||
         std::ranges::any_of(target.containers, is_container);
}

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return percent_text(100 * static_cast<double>(part) / static_cast<double>(whole));
}

// "Node.js 99.8 % named, 1234 functions in jit-812.dump": the share of the samples in JIT code that
// have a symbol, and the file with the symbols.
std::string jit_text(const ProcessShare& process) {
  if (!process.jit || process.jit->samples == 0) return "-";
  const JitNames& jit = *process.jit;
  std::string text = (jit.runtime.empty() ? "unknown" : jit.runtime) + " " +
                     share_text(jit.named_samples, jit.samples) + " named";
  if (jit.file.empty()) return text;
  return text + ", " + std::to_string(jit.functions) + " functions in " + jit.file;
}

std::vector<std::string> row_of(const ProcessShare& process) {
  constexpr std::size_t kContainerChars = 12;  // as docker shows ids
  return {percent_text(process.cpu_percent),
          std::to_string(process.pid),
          process.comm,
          process.unit.value_or("-"),
          process.container.value_or("-").substr(0, kContainerChars),
          std::to_string(process.samples),
          share_text(process.complete_samples, process.user_samples),
          jit_text(process)};
}

void print_processes(const WindowShares& window, const Console& console) {
  console.out << local_text(window.started) << ", " << duration_text(std::round(window.seconds))
              << ": " << window.samples << " samples, " << sum_of(window.lost) << " lost\n\n";
  TableRows rows{{"CPU", "PID", "COMMAND", "UNIT", "CONTAINER", "SAMPLES", "COMPLETE", "JIT CODE"}};
  for (const ProcessShare& process : window.processes) rows.push_back(row_of(process));
  print_table(std::move(rows), console.out);
}

// The last window may then be days old.
void remark_that_mode_is_off(Client& client, const Console& console) {
  const auto status = client.status();
  if (!status || status->continuous.enabled) return;
  console.err << "profctl: continuous mode is off: this is the last window of the time when it was "
                 "on\nhint: 'profctl doctor' shows how to switch it on\n";
}

class Ps final : public Subcommand {
 public:
  Ps() : Subcommand("ps", "Show who used the CPU in the last window") {}

  void add_options(OptionList& list) override {
    add_owners(list, target_);
    list.option("-n,--limit", "N", "Show the N processes that used most", {limit_, parse_limit});
  }

  Result<int> run(Client& client, const Console& console) override {
    auto window = client.last_window();
    if (!window) return window.error();
    std::erase_if(window->processes,
                  [this](const ProcessShare& process) { return !matches(process, target_); });
    if (window->processes.empty() && !target_.empty()) {
      return fail(ErrorCode::kNotFound, "no process matched",
                  "'profctl ps' without -u and -c shows the units and containers that used the CPU "
                  "in the last window");
    }
    if (window->processes.size() > limit_) window->processes.resize(limit_);
    Result<int> printed = print_answer(window, console, print_processes);
    if (!console.json) remark_that_mode_is_off(client, console);
    return printed;
  }

 private:
  TargetRequest target_;
  std::uint64_t limit_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace

std::unique_ptr<Subcommand> make_ps() { return std::make_unique<Ps>(); }

}  // namespace profd
