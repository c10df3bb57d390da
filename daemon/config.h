// profd's configuration: a TOML file, whose every key has a default.
//
//     socket = "/run/profd/profd.sock"
//     state_dir = "/var/lib/profd"
//     log_level = "info"                 # trace, debug, info, warning, error
//     ring_bytes = 1048576               # of each CPU's ring buffer, a power of two
//     session_max_bytes = 1073741824     # of samples held for one session
//     unwind_max_bytes = 41943040        # of unwind tables in the kernel

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/result.h"

namespace profd {

// Continuous mode: the whole host, sampled for ever, kept as windows under the state directory.
struct ContinuousConfig {
  bool enabled = false;
  std::chrono::seconds window{60};
  std::uint64_t frequency_hz = 19;
  std::chrono::seconds max_age{std::chrono::hours{24 * 7}};
  std::uint64_t max_bytes = std::uint64_t{1} << 30;  // windows and their objects

  friend bool operator==(const ContinuousConfig&, const ContinuousConfig&) = default;
};

struct Config {
  std::string socket = "/run/profd/profd.sock";
  std::string state_dir = "/var/lib/profd";
  std::string log_level = "info";
  std::size_t ring_bytes = std::size_t{1} << 20;
  std::uint64_t session_max_bytes = std::uint64_t{1} << 30;
  std::size_t unwind_max_bytes = std::size_t{40} << 20;
  ContinuousConfig continuous;
};

// An error names the file, line and column, and for an unknown key the nearest known ones.
[[nodiscard]] Result<Config> parse_config(std::string_view text, const std::string& file_name);

[[nodiscard]] Result<Config> load_config(const std::string& path);

}  // namespace profd
