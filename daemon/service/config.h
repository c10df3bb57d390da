// profd's settings with their defaults. config_keys.h has their names, config_reader.h reads them.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace profd {

// Continuous mode: samples the whole host all the time, and keeps windows in the state directory.
struct ContinuousConfig {
  bool enabled = false;
  std::chrono::seconds window{60};
  std::uint64_t frequency_hz = 19;
  std::chrono::seconds max_age{std::chrono::hours{24 * 2}};         // of windows
  std::chrono::seconds hours_max_age{std::chrono::hours{24 * 30}};  // of hour files
  std::uint64_t max_bytes = std::uint64_t{1} << 30;                 // of both together
  bool off_cpu = false;  // also windows of the time that threads are off their CPU
  // Whether busy JVMs are asked for their symbols. `profctl ask-runtimes` does that: the daemon
  // does not have the privileges for it.
  bool ask_runtime = false;

  friend bool operator==(const ContinuousConfig&, const ContinuousConfig&) = default;
};

struct Config {
  std::string socket = "/run/profd/profd.sock";
  std::string state_dir = "/var/lib/profd";
  std::string log_level = "info";                            // trace, debug, info, warning, error
  std::size_t ring_bytes = std::size_t{1} << 20;             // of each CPU's ring, a power of two
  std::uint64_t session_max_bytes = std::uint64_t{1} << 30;  // of samples held for one session
  std::uint64_t results_max_bytes = std::uint64_t{1} << 30;  // of all results on the disk
  std::size_t unwind_max_bytes = std::size_t{40} << 20;      // of unwind tables in the kernel
  ContinuousConfig continuous;
  std::vector<std::string> jit_directories{};  // of jitdumps and perf maps, besides the host's /tmp
  std::string xray_directory{};  // of traces of instrumented programs; empty: none is watched

  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace profd
