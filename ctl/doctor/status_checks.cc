#include "ctl/doctor/status_checks.h"

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "ctl/doctor/check_point.h"
#include "ctl/output/text.h"

namespace profd {
namespace {

constexpr double kMostLostShare = 0.001;

struct Remedy {
  std::string_view reason;
  std::string_view what;
};

constexpr auto kOfLosses = std::to_array<Remedy>({
    {"ring_full", "raise ring_bytes in profd.toml, and restart profd"},
    {"ring_busy", "lower --freq of the sessions"},
    {"no_ring", "restart profd: CPUs came after its start"},
    {"scratch", "restart profd, and report it as a mistake of profd's"},
    {"malformed_record", "report it as a mistake of profd's"},
    {"memory_limit",
     "raise session_max_bytes in profd.toml, or profile less: a shorter time, fewer "
     "processes"},
});

constexpr auto kOfWindows = std::to_array<Remedy>({
    {"no_space", "make room at state_dir, or lower continuous.max_bytes in profd.toml"},
    {"io", "the log has the cause: journalctl -u profd"},
    {"writer_busy",
     "the host is too busy to write them: give a longer continuous.window in "
     "profd.toml"},
    {"not_begun",
     "stop sessions that nobody needs any more ('profctl list'), or look into the log"},
    {"not_removed", "look for files in state_dir that profd does not own"},
});

constexpr std::string_view kOfUnknown = "the log may tell more: journalctl -u profd";

// What to do about each reason that there is.
std::string remedies(const CountsByReason& counts, std::span<const Remedy> known) {
  std::string text;
  for (const auto& [reason, count] : counts) {
    if (count == 0) continue;
    std::string_view what = kOfUnknown;
    for (const Remedy& remedy : known) {
      if (remedy.reason == reason) what = remedy.what;
    }
    text.append(text.empty() ? "" : "; ").append(reason).append(": ").append(what);
  }
  return text;
}

}  // namespace

CheckPoint check_losses(const StatusInfo::Ledger& ledger) {
  const std::uint64_t lost = sum_of(ledger.lost);
  const bool is_much =
      static_cast<double>(lost) > kMostLostShare * static_cast<double>(ledger.taken);
  CheckPoint losses{
      .name = "losses",
      .state = is_much ? CheckState::kFix : CheckState::kOk,
      .message = std::to_string(lost) + " of " + std::to_string(ledger.taken) + " samples lost",
      .hint = is_much ? remedies(ledger.lost, kOfLosses) : std::string()};
  if (lost != 0) losses.message += ": " + counts_text(ledger.lost);
  return losses;
}

CheckPoint check_history(const StatusInfo::Continuous& history) {
  if (sum_of(history.failed) != 0) {
    return point("history", CheckState::kFix,
                 "windows that failed since profd's start: " + counts_text(history.failed) + "; " +
                     std::to_string(history.lost_samples) + " samples lost with them",
                 remedies(history.failed, kOfWindows));
  }
  if (!history.enabled) {
    return point("history", CheckState::kFix, "continuous mode is off: nothing is kept of the past",
                 "switch it on: [continuous] enabled = true in /etc/profd/profd.toml, then "
                 "systemctl reload profd");
  }
  const std::string kept = std::to_string(history.windows) + " windows kept, " +
                           bytes_text(history.disk_bytes) + " on disk";
  if (history.last_written.empty()) return point("history", CheckState::kOk, kept + " so far");
  return point("history", CheckState::kOk,
               kept + ", last written " + local_text(history.last_written));
}

}  // namespace profd
