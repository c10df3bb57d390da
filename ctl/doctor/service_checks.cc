#include "ctl/doctor/service_checks.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ctl/client/service_commands.h"
#include "ctl/output/text.h"
#include "ctl/process/child_process.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using std::chrono_literals::operator""s;

constexpr auto kProgramLimit = 20s;
constexpr std::uint64_t kMinFreeBytes = std::uint64_t{512} << 20;
constexpr const char* kDefaultStateDirectory = "/var/lib/profd";

// The PATH of an ordinary user does not have the sbin directories.
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

CheckPoint check_failed(const Error& error) {
  return {"profd", CheckState::kFix, "could not run profd --check: " + error.message,
          "install profd in the directory of profctl, or in one of PATH"};
}

CheckPoint check_unit() {
  if (!host_runs_systemd()) {
    return {"service", CheckState::kNote, "this host does not run systemd"};
  }
  const auto output = run_program({"systemctl", "is-active", "profd.service"}, kProgramLimit);
  if (!output) return {"service", CheckState::kUnknown, output.error().message};
  const std::string state = output->out.substr(0, output->out.find('\n'));
  if (state == "active") return {"service", CheckState::kOk, "profd.service is active"};
  return {"service", CheckState::kFix, "profd.service is " + (state.empty() ? "absent" : state),
          "systemctl enable --now profd; journalctl -u profd says why it ended"};
}

CheckPoint check_socket(const Result<StatusInfo>& status) {
  if (!status) return {"socket", CheckState::kFix, status.error().message, status.error().hint};
  if (status->version != PROFD_VERSION) {
    return {"socket", CheckState::kFix,
            "profd has the version " + status->version + ", profctl " PROFD_VERSION,
            std::string(service_commands().restart)};
  }
  return {"socket", CheckState::kOk,
          "profd " + status->version + " answers, pid " + std::to_string(status->pid) + ", up " +
              duration_text(status->uptime_seconds)};
}

// Nothing if the daemon does not show its configuration to the caller.
std::optional<std::string> state_directory(const Result<ConfigInfo>& config) {
  if (!config) return std::nullopt;
  for (const ConfigInfo::Value& value : config->values) {
    if (value.key == "state_dir" && value.value.size() > 2) {
      return value.value.substr(1, value.value.size() - 2);  // without the quotes of TOML
    }
  }
  return std::nullopt;
}

CheckPoint check_disk(const std::optional<std::string>& state_dir) {
  const std::string directory = state_dir.value_or(kDefaultStateDirectory);
  const std::string place =
      directory + (state_dir ? "" : " (the default; the state_dir of profd is not known)");
  struct statvfs disk {};
  if (::statvfs(directory.c_str(), &disk) != 0) {
    return {"disk", CheckState::kUnknown, fail_errno("could not check " + place).message};
  }
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  const std::string message = bytes_text(free) + " free at " + place;
  if (free >= kMinFreeBytes) return {"disk", CheckState::kOk, message};
  return {"disk", CheckState::kFix, message,
          "free some space, or lower continuous.max_bytes in profd.toml"};
}

CheckPoint check_config(const Result<ConfigInfo>& config) {
  if (!config) return {"config", CheckState::kUnknown, config.error().message};
  if (!config->problems.empty()) {
    return {"config", CheckState::kFix, config->problems.front(),
            "correct it, then: " + std::string(service_commands().reload)};
  }
  for (const ConfigInfo::Value& value : config->values) {
    if (!value.after_restart) continue;
    return {"config", CheckState::kFix, value.key + " has a new value, which needs a restart",
            std::string(service_commands().restart)};
  }
  return {"config", CheckState::kOk, "running configuration matches the files"};
}

constexpr double kMaxLostShare = 0.001;

struct Remedy {
  std::string_view reason;
  std::string_view text;
};

constexpr auto kLossRemedies = std::to_array<Remedy>({
    {"ring_full", "raise ring_bytes in profd.toml and restart profd"},
    {"ring_busy", "lower --freq of the sessions"},
    {"ring_share",
     "raise ring_bytes in profd.toml and restart profd, or lower --freq of the users' sessions"},
    {"no_ring", "restart profd: CPUs were added after it started"},
    {"scratch", "restart profd, and report this as a bug of profd"},
    {"malformed_record", "report this as a bug of profd"},
    {"memory_limit",
     "raise session_max_bytes in profd.toml, or profile for a shorter time or fewer processes"},
});

constexpr auto kWindowRemedies = std::to_array<Remedy>({
    {"no_space", "free some space at state_dir, or lower continuous.max_bytes in profd.toml"},
    {"io", "the log of profd says why"},
    {"writer_busy",
     "the host is too busy to write them: set a longer continuous.window in profd.toml"},
    {"not_begun", "stop sessions that nobody needs ('profctl list'), or see the log of profd"},
    {"not_removed", "look for files in state_dir that do not belong to profd"},
    {"hour", "the log of profd says why"},
});

// "REASON: what to do; ..." for each reason with a count, and where the log is that one names.
std::string remedies(const CountsByReason& counts, std::span<const Remedy> known) {
  std::string text;
  for (const auto& [reason, count] : counts) {
    if (count == 0) continue;
    const auto remedy = std::ranges::find(known, reason, &Remedy::reason);
    text.append(text.empty() ? "" : "; ").append(reason).append(": ");
    text.append(remedy == known.end() ? "the log of profd may say more" : remedy->text);
  }
  if (text.find("the log of profd") == text.npos) return text;
  return text.append(" (").append(service_commands().log).append(")");
}

}  // namespace

CheckReport check_host() {
  const auto output = run_program({find_profd(), "--check", "--json"}, kProgramLimit);
  if (!output) return {check_failed(output.error())};
  Result<CheckReport> report = parse_check_report(output->out);
  if (!report) return {check_failed(report.error())};
  if (::geteuid() == 0) return std::move(*report);
  for (CheckPoint& point : *report) {
    const bool is_good = point.state == CheckState::kOk || point.state == CheckState::kNote;
    if (is_good || !point.needs_privilege) continue;
    point.state = CheckState::kUnknown;
    point.hint = "the daemon has privileges that you lack; to check with them: sudo profctl doctor";
  }
  return std::move(*report);
}

CheckReport check_service(Client& client) {
  const auto status = client.status();
  if (!status) return {check_unit(), check_socket(status), check_disk(std::nullopt)};
  const auto config = client.configuration();
  CheckReport report{check_unit(),
                     check_socket(status),
                     check_namespace(*status),
                     check_losses(status->ledger),
                     check_interpreters(status->interpreters),
                     check_history(status->continuous),
                     check_config(config),
                     check_disk(state_directory(config))};
  if (status->continuous_off_cpu && status->continuous_off_cpu->enabled) {
    CheckPoint off_cpu = check_history(*status->continuous_off_cpu);
    off_cpu.name = "history-off-cpu";
    report.push_back(std::move(off_cpu));
  }
  return report;
}

CheckPoint check_namespace(const StatusInfo& status) {
  if (status.outside_namespace == 0) {
    return {"namespace", CheckState::kOk, "no sample was outside profd's PID namespace"};
  }
  return {"namespace", CheckState::kFix,
          std::to_string(status.outside_namespace) +
              " samples are of processes outside profd's PID namespace, which it does not profile",
          "run profd in the PID namespace of the host: podman and docker have --pid=host, "
          "Kubernetes hostPID: true"};
}

CheckPoint check_interpreters(const StatusInfo::Interpreters& interpreters) {
  if (!interpreters.supported) {
    return {"runtimes", CheckState::kNote,
            "this kernel's verifier refuses the programs that read frames of interpreted code: "
            "stacks show the functions of the interpreter, not those of the script",
            "a newer kernel accepts them"};
  }
  const std::uint64_t refused = sum_of(interpreters.refused);
  const std::string message = counted(interpreters.known, "interpreter") + " known";
  if (refused == 0) return {"runtimes", CheckState::kOk, message};
  return {"runtimes", CheckState::kNote,
          message + ", not read: " + counts_text(interpreters.refused),
          "'profctl doctor --pid PID' says more of a process"};
}

CheckPoint check_losses(const StatusInfo::Ledger& ledger) {
  const std::uint64_t lost = sum_of(ledger.lost);
  std::string message =
      std::to_string(lost) + " of " + std::to_string(ledger.taken) + " samples lost";
  if (lost != 0) message += ": " + counts_text(ledger.lost);
  if (static_cast<double>(lost) <= kMaxLostShare * static_cast<double>(ledger.taken)) {
    return {"losses", CheckState::kOk, message};
  }
  return {"losses", CheckState::kFix, message, remedies(ledger.lost, kLossRemedies)};
}

CheckPoint check_history(const StatusInfo::Continuous& history) {
  if (sum_of(history.failed) != 0) {
    return {"history", CheckState::kFix,
            "windows that failed since profd started: " + counts_text(history.failed) + "; " +
                std::to_string(history.lost_samples) + " samples lost with them",
            remedies(history.failed, kWindowRemedies)};
  }
  if (!history.enabled) {
    return {
        "history", CheckState::kFix, "continuous mode is off: profd keeps no history",
        "switch it on: continuous.enabled = true in /etc/profd/conf.d/history.toml (with 'profd "
        "--config FILE': in a file of conf.d beside FILE), then: " +
            std::string(service_commands().reload)};
  }
  std::string kept = std::to_string(history.windows) + " windows kept, " +
                     bytes_text(history.disk_bytes) + " on disk";
  if (!history.last_written.empty()) kept += ", last written " + local_text(history.last_written);
  return {"history", CheckState::kOk, kept};
}

}  // namespace profd
