#include "daemon/sessions/caller_limits.h"

#include <string>

namespace profd {
namespace {

Error holds_too_much() {
  return fail(ErrorCode::kTooLarge, "your sessions and results are over your memory limit",
              "'profctl list' shows them; 'profctl stop ID' fetches one");
}

}  // namespace

Result<void> check_start(const SessionLimits& limits, const Holdings& held) {
  if (held.sessions >= limits.unprivileged_max_sessions) {
    return fail(ErrorCode::kTooLarge,
                "you have " + std::to_string(held.sessions) + " sessions, which is your limit",
                "'profctl list' shows them; 'profctl stop ID' ends and fetches one");
  }
  if (held.bytes > limits.unprivileged_max_bytes) return holds_too_much();
  return {};
}

Result<void> check_dump(const SessionLimits& limits, const Holdings& held,
                        std::uint64_t copy_bytes) {
  if (held.dumps >= limits.unprivileged_max_dumps) {
    return fail(ErrorCode::kTooLarge,
                "you have " + std::to_string(held.dumps) + " dumps, which is your limit",
                "fetch and remove one, or wait: each is removed after 15 minutes");
  }
  if (held.bytes + copy_bytes > limits.unprivileged_max_bytes) return holds_too_much();
  return {};
}

// The period of an event without ticks is a unit alone: the kernel side bounds its samples.
Result<void> check_rate(const SessionLimits& limits, const EventSpec& event) {
  if (!event.has_ticks()) return {};
  constexpr std::uint64_t kMinPeriodNs = 1'000'000;
  const std::string limit = std::to_string(limits.unprivileged_max_hz) + " Hz";
  const std::string hint = "give a frequency of at most " + limit;
  if (event.frequency_hz > limits.unprivileged_max_hz) {
    return fail(ErrorCode::kPermissionDenied,
                std::to_string(event.frequency_hz) + " Hz is over your limit of " + limit, hint);
  }
  if (event.period == 0) return {};
  if (!event.is_time) {
    return fail(ErrorCode::kPermissionDenied,
                "only root and the group profd may give a period of " + event.name, hint);
  }
  if (event.period >= kMinPeriodNs) return {};
  return fail(ErrorCode::kPermissionDenied,
              "a period of " + std::to_string(event.period) + " ns is under your limit of 1 ms",
              "give one of at least 1000000 (ns)");
}

}  // namespace profd
