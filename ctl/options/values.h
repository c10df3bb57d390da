// Values on the command line to values in a request. Every error is kInvalidArgument and quotes the
// value.

#pragma once

#include <cstdint>
#include <string>

#include "formats/base/result.h"

namespace profd {

// Decimal digits only.
[[nodiscard]] Result<std::uint32_t> parse_pid(const std::string& text);

// A number or a name that the host knows.
[[nodiscard]] Result<std::uint32_t> parse_user(const std::string& text);

// Hertz, at least 1. The host's upper limit is the daemon's to check; the error names it.
[[nodiscard]] Result<std::uint64_t> parse_frequency(const std::string& text);

// Events a sample, at least 1; nanoseconds for the clocks.
[[nodiscard]] Result<std::uint64_t> parse_period(const std::string& text);

// How many to show: 1 to `max`.
[[nodiscard]] Result<std::uint64_t> parse_limit(const std::string& text, std::uint64_t max);

// "500ms", "10s", "5m", "1h", "1.5h", "1d"; a plain number is seconds. At least 1 ms, in
// milliseconds.
[[nodiscard]] Result<std::uint64_t> parse_duration_ms(const std::string& text);

// A cgroup's path below the cgroup v2 mount; one with the mount point (/sys/fs/cgroup, or
// /sys/fs/cgroup/unified) before it is understood too.
[[nodiscard]] std::string parse_cgroup(const std::string& text);

}  // namespace profd
