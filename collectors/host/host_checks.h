// Whether profd can sample on this host: each feature that it needs in one line, with a hint where
// the feature is missing.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/api/check_report.h"
#include "formats/base/result.h"

namespace profd {

// The *_error members have the errno of one harmless try of a feature; 0 is success.
struct HostFacts {
  std::string kernel_release;      // uname -r
  bool has_btf = false;            // /sys/kernel/btf/vmlinux
  bool is_root = false;            // effective uid 0
  std::uint64_t capabilities = 0;  // effective set, bit per CAP_*
  // "none", "integrity", "confidentiality"; empty where the kernel has no lockdown.
  std::string lockdown;
  int bpf_error = 0;         // bpf(2): a map of one element
  int perf_event_error = 0;  // perf_event_open(2): the clock of CPU 0, every process
  int cycles_error = 0;      // the same for hardware cycles
  int openat2_error = 0;
  int map_files_error = 0;   // a file in /proc/self/map_files
  int other_maps_error = 0;  // /proc/PID/maps of other users' processes, all of them
  int kallsyms_error = 0;    // ENODATA: every address in it is 0
  int kptr_restrict = 0;
  bool has_host_pids = true;  // the PID namespace is that of the host
};

[[nodiscard]] HostFacts read_host_facts();

// The release of the running kernel, as `uname -r`.
[[nodiscard]] std::string kernel_release();

// The name of the host, as `uname -n`.
[[nodiscard]] std::string host_name();

// All checks, in the order in which their problems should be solved.
[[nodiscard]] CheckReport check_host(const HostFacts& facts);

// The problems in check_host() that keep profd from running.
[[nodiscard]] std::vector<Error> missing_features(const HostFacts& facts);

}  // namespace profd
