// Turns the arguments of options into values. Every error is kInvalidArgument and quotes the
// argument.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/base/result.h"

namespace profd {

// The parts of "a,b"; "\\," is a comma of a name. An empty part is an error.
[[nodiscard]] Result<std::vector<std::string>> split_list(const std::string& text);

// "1234" or "1234,5678".
[[nodiscard]] Result<std::vector<std::uint32_t>> parse_pids(const std::string& text);

// A number, or a name in the user database of the host.
[[nodiscard]] Result<std::uint32_t> parse_user(const std::string& text);

// Hertz, at least 1. The error names the host's upper limit, which the daemon checks.
[[nodiscard]] Result<std::uint64_t> parse_frequency(const std::string& text);

// Events per sample, at least 1; nanoseconds for the clocks.
[[nodiscard]] Result<std::uint64_t> parse_period(const std::string& text);

// How many rows to show, at least 1.
[[nodiscard]] Result<std::uint64_t> parse_limit(const std::string& text);

// "500ms", "10s", "5m", "1h", "1.5h", "1d"; a plain number is seconds. Returns milliseconds, at
// least 1 and at most 366 days.
[[nodiscard]] Result<std::uint64_t> parse_duration_ms(const std::string& text);

// The path of a cgroup relative to the cgroup v2 mount. A leading mount point (/sys/fs/cgroup or
// /sys/fs/cgroup/unified) is removed.
[[nodiscard]] Result<std::string> parse_cgroup(const std::string& text);

}  // namespace profd
