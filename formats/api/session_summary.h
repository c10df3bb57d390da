// session.json: what a session was, what it wrote and what it lost.
//
// The form is an interface that scripts rely on: README.md and docs/api.md name every field. The
// daemon fills it, the control socket carries it, profctl writes it beside the profiles.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/api/jit_names.h"
#include "formats/base/result.h"

namespace profd {

// Losses and other counts by reason; an ordered map, so that output is stable. Reasons with a count
// of 0 are left out.
using CountsByReason = std::map<std::string, std::uint64_t>;

[[nodiscard]] std::uint64_t sum_of(const CountsByReason& counts);

// "5 no_row, 2 window"
[[nodiscard]] std::string text_of(const CountsByReason& counts);

// taken = written + lost, each term counted by itself; what does not add up is the difference,
// shown as it is.
struct SessionLedger {
  std::uint64_t taken = 0;    // matches in the kernel
  std::uint64_t written = 0;  // sum over the profiles, read back from the files
  CountsByReason lost;

  [[nodiscard]] std::int64_t difference() const;
  friend bool operator==(const SessionLedger&, const SessionLedger&) = default;
};

struct ProfileSummary {
  std::uint32_t pid = 0;            // in profd's PID namespace
  std::uint64_t start_time_ns = 0;  // of the process, since boot
  std::string comm;
  std::string path;  // relative to the session's directory
  std::uint64_t samples = 0;
  std::uint64_t stacks = 0;        // distinct
  std::uint64_t user_samples = 0;  // with a user stack
  std::uint64_t complete_samples =
      0;  // of user_samples, those that reached the program's or the thread's entry
  std::uint64_t kernel_only_samples = 0;  // kernel threads, and ticks in exit or exec
  CountsByReason incomplete;              // the rest of user_samples, by what ended the stack
  std::optional<std::string> unit;        // systemd unit, from the cgroup
  std::optional<std::string> container;   // container id, from the cgroup
  std::optional<JitNames> jit;            // none: no sample has a frame in code made at run time

  friend bool operator==(const ProfileSummary&, const ProfileSummary&) = default;
};

struct SessionSummary {
  std::string session;
  std::string started;  // RFC 3339, UTC
  double seconds = 0;
  std::string event;
  std::uint64_t period_us = 0;  // in period_unit: microseconds for an event that is time
  std::string period_unit = "microseconds";
  std::vector<ProfileSummary> profiles;
  SessionLedger ledger;
  // Of event "xray": what its records were, and what of them was not as it should be.
  std::optional<CountsByReason> xray{};

  friend bool operator==(const SessionSummary&, const SessionSummary&) = default;
};

[[nodiscard]] std::string to_json(const SessionSummary& summary);
// Unknown members are skipped, so that a newer daemon's files stay readable. "difference" is
// computed, never read.
[[nodiscard]] Result<SessionSummary> parse_session_summary(std::string_view json);

}  // namespace profd
