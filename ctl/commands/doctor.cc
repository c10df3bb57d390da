#include <ostream>

#include "ctl/commands/commands.h"
#include "ctl/doctor/host_checks.h"
#include "ctl/doctor/process_checks.h"
#include "ctl/output/text.h"

namespace profd {
namespace {

void append(CheckReport more, CheckReport& report) {
  for (CheckPoint& point : more) report.push_back(std::move(point));
}

void print_report(const CheckReport& report, std::ostream& out) {
  std::vector<std::vector<std::string>> rows;
  for (const CheckPoint& point : report) {
    rows.push_back(
        {std::string(state_name(point.state)), printable(point.name), printable(point.message)});
    if (!point.hint.empty()) rows.push_back({"", "", "-> " + printable(point.hint)});
  }
  print_table(rows, out);
}

int exit_code_of(CheckState worst) {
  if (worst == CheckState::kFatal) return kExitUnsupported;
  return worst == CheckState::kFix ? kExitFailed : kExitOk;
}

}  // namespace

int run_doctor(Client& client, const Options& options, const Console& console) {
  CheckReport report = check_host();
  append(check_service(client), report);
  for (const std::uint32_t pid : options.request.target.pids) {
    auto process = check_process(pid);
    if (!process) return profd::report(console, process.error());
    append(std::move(*process), report);
  }
  if (options.json) {
    console.out << to_json(report) << "\n";
  } else {
    print_report(report, console.out);
  }
  return exit_code_of(worst_state(report));
}

}  // namespace profd
