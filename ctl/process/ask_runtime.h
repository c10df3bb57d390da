// Asks a running HotSpot JVM (17 or later) to write the symbols of its JIT code to
// /tmp/perf-PID.map in its own root, where profd finds them. So a JVM that was started without any
// option has symbols too.
//
// This uses the attach mechanism of the JVM with the rights of the caller: root asks as the user of
// the process, in a child that drops all other privileges; any other user can ask their own
// processes only. The daemon never does this.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <span>

#include "formats/base/result.h"

namespace profd {

struct AskLimits {
  std::chrono::milliseconds listen{5'000};   // until the JVM opens its socket
  std::chrono::milliseconds answer{10'000};  // from then until it answers
};

// Returns after the JVM wrote the map. kUnsupported: the process is not HotSpot, or its JVM can't
// be asked; it got no signal. kNotFound: there is no such process.
[[nodiscard]] Result<void> ask_for_perf_map(pid_t pid, const AskLimits& limits = {});

// Asks all of them, then returns the first error.
[[nodiscard]] Result<void> ask_for_perf_maps(std::span<const std::uint32_t> pids);

}  // namespace profd
