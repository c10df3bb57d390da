// Limits of unprivileged callers: sessions, dumps, memory, and the rate of samples. Privileged
// callers have none of them.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "collectors/sampling/event_spec.h"
#include "daemon/storage/result_store.h"
#include "formats/base/result.h"

namespace profd {

struct SessionLimits {
  std::uint64_t session_max_bytes = std::uint64_t{1} << 30;  // of privileged callers' sessions
  // Of all data of one unprivileged caller; each of its sessions gets an equal share.
  std::uint64_t unprivileged_max_bytes = std::uint64_t{64} << 20;
  // Of the samples in memory of all such callers together (daemon/samples/sample_budget.h).
  std::uint64_t unprivileged_samples_bytes = std::uint64_t{48} << 20;
  std::size_t unprivileged_max_sessions = 4;
  std::size_t unprivileged_max_dumps = 4;  // stored or being written
  // Of all such callers together, since the samples of each have up to unprivileged_max_bytes,
  // and each needs more for the windows that it reads and the profile that it encodes.
  std::size_t unprivileged_exports_at_once = 4;
  std::uint64_t unprivileged_max_hz = 999;  // since a tick interrupts every process
  std::chrono::seconds unprivileged_keep = kShortKeeping;
};

// What one caller has: running, ended, being written or stored.
struct Holdings {
  std::size_t sessions = 0;
  std::size_t dumps = 0;
  std::uint64_t bytes = 0;
};

// Whether the caller may start another session. kTooLarge: it must fetch one first.
[[nodiscard]] Result<void> check_start(const SessionLimits& limits, const Holdings& held);

// Whether the caller may make another dump, of `copy_bytes`.
[[nodiscard]] Result<void> check_dump(const SessionLimits& limits, const Holdings& held,
                                      std::uint64_t copy_bytes);

// Whether the caller may use an event at its frequency or period. Every error is
// kPermissionDenied.
[[nodiscard]] Result<void> check_rate(const SessionLimits& limits, const EventSpec& event);

}  // namespace profd
