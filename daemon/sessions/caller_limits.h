// What callers without rights may take of the daemon: sessions, dumps, memory, and the host's time
// in ticks. root and the group profd are asked for nothing here.

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
  // Of all that one caller without rights holds; each of its sessions gets an equal share.
  std::uint64_t unprivileged_max_bytes = std::uint64_t{64} << 20;
  std::size_t unprivileged_max_sessions = 4;
  std::size_t unprivileged_max_dumps = 4;   // stored or being written
  std::uint64_t unprivileged_max_hz = 999;  // a tick costs the whole host, whoever is sampled
  std::chrono::seconds unprivileged_keep = kShortKeeping;
};

// What one caller has, wherever it is: running, ended, with the worker or stored.
struct Holdings {
  std::size_t sessions = 0;
  std::size_t dumps = 0;
  std::uint64_t bytes = 0;
};

// For one session more. kTooLarge: what is there has to be fetched first.
[[nodiscard]] Result<void> check_start(const SessionLimits& limits, const Holdings& held);

// For one dump more, a copy of so many bytes.
[[nodiscard]] Result<void> check_dump(const SessionLimits& limits, const Holdings& held,
                                      std::uint64_t copy_bytes);

// How often an event may strike.
[[nodiscard]] Result<void> check_rate(const SessionLimits& limits, const EventSpec& event);

}  // namespace profd
