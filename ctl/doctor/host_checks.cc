#include "ctl/doctor/host_checks.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ctl/doctor/check_point.h"
#include "ctl/doctor/status_checks.h"
#include "ctl/output/program_output.h"
#include "ctl/output/text.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using std::chrono_literals::operator""s;

constexpr auto kProgramLimit = 20s;
constexpr std::uint64_t kLeastFreeBytes = std::uint64_t{512} << 20;
constexpr const char* kDefaultStateDirectory = "/var/lib/profd";

// PATH of an ordinary user has no sbin.
std::string find_profd() {
  std::error_code ignored;
  const fs::path beside = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::array<fs::path, 4> places = {beside / "profd", beside.parent_path() / "sbin/profd",
                                          "/usr/local/sbin/profd", "/usr/sbin/profd"};
  for (const fs::path& place : places) {
    if (::access(place.c_str(), X_OK) == 0) return place;
  }
  return "profd";
}

CheckPoint no_check(const Error& error) {
  return point("profd", CheckState::kFix, "profd --check tells nothing: " + error.message,
               "install profd beside profctl, or into PATH");
}

CheckPoint check_unit() {
  if (!fs::exists("/run/systemd/system")) {
    return point("service", CheckState::kNote, "systemd does not run here");
  }
  const auto state = output_of({"systemctl", "is-active", "profd.service"}, kProgramLimit);
  if (!state) return point("service", CheckState::kUnknown, state.error().message);
  const std::string word = state->out.substr(0, state->out.find('\n'));
  if (word == "active") return point("service", CheckState::kOk, "profd.service is active");
  return point("service", CheckState::kFix, "profd.service is " + (word.empty() ? "absent" : word),
               "systemctl enable --now profd; journalctl -u profd says why it ended");
}

CheckPoint check_answer(const Result<StatusInfo>& status) {
  if (!status) {
    return point("socket", CheckState::kFix, status.error().message, status.error().hint);
  }
  if (status->version != PROFD_VERSION) {
    return point("socket", CheckState::kFix,
                 "profd is " + status->version + ", and profctl " PROFD_VERSION,
                 "systemctl restart profd");
  }
  return point("socket", CheckState::kOk,
               "profd " + status->version + " answers, pid " + std::to_string(status->pid) +
                   ", up " + duration_text(status->uptime_seconds));
}

// Nothing where profd does not tell it: the configuration is not for everyone to read.
std::optional<std::string> state_directory(const Result<ConfigInfo>& config) {
  if (!config) return std::nullopt;
  for (const ConfigInfo::Value& value : config->values) {
    if (value.key == "state_dir" && value.value.size() > 2) {
      return value.value.substr(1, value.value.size() - 2);
    }
  }
  return std::nullopt;
}

CheckPoint check_disk(const std::optional<std::string>& state_dir) {
  const std::string directory = state_dir.value_or(kDefaultStateDirectory);
  const std::string place =
      directory + (state_dir ? "" : " (the default; profd has not told its own)");
  struct statvfs disk {};
  if (::statvfs(directory.c_str(), &disk) != 0) {
    return point("disk", CheckState::kUnknown, fail_errno("could not look at " + place).message);
  }
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  const bool is_short = free < kLeastFreeBytes;
  return point("disk", is_short ? CheckState::kFix : CheckState::kOk,
               bytes_text(free) + " free at " + place,
               is_short ? "make room, or lower continuous.max_bytes in profd.toml" : "");
}

CheckPoint check_config(const Result<ConfigInfo>& config) {
  if (!config) return point("config", CheckState::kUnknown, config.error().message);
  if (!config->problems.empty()) {
    return point("config", CheckState::kFix, config->problems.front(),
                 "mend it, then systemctl reload profd");
  }
  for (const ConfigInfo::Value& value : config->values) {
    if (!value.after_restart) continue;
    return point("config", CheckState::kFix, value.key + " has a new value, which takes a restart",
                 "systemctl restart profd");
  }
  return point("config", CheckState::kOk, "in force as the files have it");
}

}  // namespace

CheckReport check_host() {
  const auto output = output_of({find_profd(), "--check", "--json"}, kProgramLimit);
  if (!output) return {no_check(output.error())};
  Result<CheckReport> report = parse_check_report(output->out);
  if (!report) return {no_check(report.error())};
  if (::geteuid() == 0) return std::move(*report);
  for (CheckPoint& found : *report) {
    const bool is_well = found.state == CheckState::kOk || found.state == CheckState::kNote;
    if (is_well || !found.needs_privilege) continue;
    found.state = CheckState::kUnknown;
    found.hint = "the daemon may where you may not: sudo profctl doctor can tell";
  }
  return std::move(*report);
}

CheckReport check_service(Client& client) {
  CheckReport report{check_unit()};
  const auto status = client.status();
  report.push_back(check_answer(status));
  if (!status) {
    report.push_back(check_disk(std::nullopt));
    return report;
  }
  const auto config = client.configuration();
  report.push_back(check_losses(status->ledger));
  report.push_back(check_history(status->continuous));
  report.push_back(check_config(config));
  report.push_back(check_disk(state_directory(config)));
  return report;
}

}  // namespace profd
