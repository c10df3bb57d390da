#include <string>
#include <utility>
#include <vector>

#include "ctl/commands/subcommand.h"
#include "ctl/doctor/process_checks.h"
#include "ctl/doctor/service_checks.h"
#include "ctl/output/text.h"
#include "ctl/ship/ship_checks.h"
#include "ctl/ship/ship_config.h"
#include "ctl/ship/ship_status.h"

namespace profd {
namespace {

void append(CheckReport more, CheckReport& report) {
  for (CheckPoint& point : more) report.push_back(std::move(point));
}

void print_report(const CheckReport& report, const Console& console) {
  TableRows rows;
  for (const CheckPoint& point : report) {
    rows.push_back({std::string(state_name(point.state)), point.name, point.message});
    if (!point.hint.empty()) rows.push_back({"", "", "-> " + point.hint});
  }
  print_table(std::move(rows), console.out);
}

class Doctor final : public Subcommand {
 public:
  Doctor()
      : Subcommand("doctor", "Check the host, the service and processes, and say what to do") {}

  void add_options(OptionList& list) override {
    add_pids(list, "Check this process too; repeatable", pids_);
    list.option("--ship-config", "FILE",
                "Check what profctl ship sends to, where FILE exists [" +
                    std::string(kShipConfigFile) + "]",
                Reader::path(ship_config_));
    list.option(
        "--runtime-dir", "DIR",
        "Where profctl ship writes what it does [" + std::string(kShipRuntimeDirectory) + "]",
        Reader::path(ship_directory_));
  }

  // kExitUnsupported: profd can't run on this host. kExitFailed: something should be corrected.
  Result<int> run(Client& client, const Console& console) override {
    CheckReport report = check_host();
    append(check_service(client), report);
    append(check_ship(ship_config_, ship_directory_), report);
    const std::vector<StatusInfo::Interpreters::File> interpreters = interpreters_of(client);
    for (const std::uint32_t pid : pids_) {
      auto process = check_process(pid, interpreters);
      if (!process) return process.error();
      append(std::move(*process), report);
    }
    (void)print_answer(Result<CheckReport>(report), console, print_report);
    const CheckState worst = worst_state(report);
    if (worst == CheckState::kFatal) return kExitUnsupported;
    return worst == CheckState::kFix ? kExitFailed : kExitOk;
  }

 private:
  // For privileged callers.
  std::vector<StatusInfo::Interpreters::File> interpreters_of(Client& client) const {
    if (pids_.empty()) return {};
    Result<StatusInfo> status = client.status();
    if (!status) return {};
    std::vector<StatusInfo::Interpreters::File> files = std::move(status->interpreters.files);
    if (!status->interpreters.supported) {
      for (StatusInfo::Interpreters::File& file : files) file.verdict = kRefusedByVerifier;
    }
    return files;
  }

  std::vector<std::uint32_t> pids_;
  std::string ship_config_ = kShipConfigFile;
  std::string ship_directory_ = kShipRuntimeDirectory;
};

}  // namespace

std::unique_ptr<Subcommand> make_doctor() { return std::make_unique<Doctor>(); }

}  // namespace profd
