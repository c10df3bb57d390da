// Asks a running HotSpot JVM (17 and later) to write the names of the code that it has made to
// /tmp/perf-PID.map of its own root, where profd finds them: so a JVM that was started without
// switches has names too.
//
// It is the JVM's own attach mechanism, with the rights of whoever calls: root asks as the
// process's user, in a child that gives the rest up; anyone else can ask their own processes. The
// daemon never does this.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <span>

#include "formats/base/result.h"

namespace profd {

struct AskLimits {
  std::chrono::milliseconds listen{5'000};   // for the JVM to open its socket
  std::chrono::milliseconds answer{10'000};  // and to answer, once it did
};

// Returns when the map is written. kUnsupported: it is no HotSpot, or one that can't be asked; then
// it got no signal. kNotFound: there is no such process.
[[nodiscard]] Result<void> ask_for_perf_map(pid_t pid, const AskLimits& limits = {});

// Each of them; the first error, if there is one, after all were asked.
[[nodiscard]] Result<void> ask_for_perf_maps(std::span<const std::uint32_t> pids);

}  // namespace profd
