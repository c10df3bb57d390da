#include "collectors/host/host_checks.h"

#include <errno.h>
#include <linux/capability.h>

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

namespace profd {
namespace {

// 6.1 has the maple tree of VMAs, which the unwinder walks.
constexpr std::pair<unsigned, unsigned> kOldestKernel{6, 1};

struct Capability {
  unsigned bit;
  std::string_view name;
  bool implied_by_sys_admin;
};

// In order: to load programs; to open events; to read /proc of other processes; to open their
// map_files; to read binaries that only their owner may read; to read kernel symbol addresses.
constexpr std::array kNeeded = {
    Capability{CAP_BPF, "CAP_BPF", true},
    Capability{CAP_PERFMON, "CAP_PERFMON", true},
    Capability{CAP_SYS_PTRACE, "CAP_SYS_PTRACE", false},
    Capability{CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", true},
    Capability{CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", false},
    Capability{CAP_SYSLOG, "CAP_SYSLOG", true},
};

std::pair<unsigned, unsigned> parse_release(std::string_view release) {
  std::pair<unsigned, unsigned> version{0, 0};
  const char* const end = release.data() + release.size();
  const auto major = std::from_chars(release.data(), end, version.first);
  if (major.ec == std::errc() && major.ptr != end && *major.ptr == '.') {
    std::from_chars(major.ptr + 1, end, version.second);
  }
  return version;
}

bool has(std::uint64_t capabilities, unsigned bit) { return (capabilities >> bit & 1) != 0; }

std::string missing_capabilities(std::uint64_t capabilities) {
  std::string names;
  for (const Capability& needed : kNeeded) {
    const bool implied = needed.implied_by_sys_admin && has(capabilities, CAP_SYS_ADMIN);
    if (implied || has(capabilities, needed.bit)) continue;
    names += (names.empty() ? "" : "+") + std::string(needed.name);
  }
  return names;
}

CheckPoint ok(std::string name, std::string message) {
  return {.name = std::move(name), .message = std::move(message), .hint = {}};
}

CheckPoint fatal(std::string name, std::string message, std::string hint) {
  return {.name = std::move(name),
          .state = CheckState::kFatal,
          .message = std::move(message),
          .hint = std::move(hint)};
}

CheckPoint fix(std::string name, std::string message, std::string hint) {
  CheckPoint point = fatal(std::move(name), std::move(message), std::move(hint));
  point.state = CheckState::kFix;
  return point;
}

CheckPoint of_rights(CheckPoint point) {
  point.needs_privilege = true;
  return point;
}

std::string refused(const std::string& what, int error) {
  return what + ": " + std::strerror(error);
}

CheckPoint check_kernel(const HostFacts& facts) {
  if (parse_release(facts.kernel_release) < kOldestKernel) {
    return fatal("kernel", "kernel " + facts.kernel_release + " is older than 6.1",
                 "boot Linux 6.1 or later");
  }
  return ok("kernel", "Linux " + facts.kernel_release);
}

CheckPoint check_btf(const HostFacts& facts) {
  if (!facts.has_btf) {
    return fatal("btf", "the kernel has no BTF: could not read /sys/kernel/btf/vmlinux",
                 "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y, and mount /sys");
  }
  return ok("btf", "BTF available");
}

CheckPoint check_lockdown(const HostFacts& facts) {
  if (facts.lockdown == "confidentiality") {
    return fatal("lockdown",
                 "kernel lockdown is 'confidentiality', which stops BPF from reading memory",
                 "boot with lockdown=integrity");
  }
  return ok("lockdown", facts.lockdown.empty() ? "the kernel has no lockdown" : facts.lockdown);
}

CheckPoint check_capabilities(const HostFacts& facts) {
  const std::string names = missing_capabilities(facts.capabilities);
  if (names.empty()) return ok("capabilities", "profd has the capabilities that it needs");
  const std::string user = facts.is_root ? "root without " : "not root, and no ";
  return fatal("capabilities", user + names,
               facts.is_root ? "give the container or unit these capabilities"
                             : "run as root, or with these capabilities");
}

CheckPoint check_bpf(const HostFacts& facts) {
  if (facts.bpf_error == 0) return ok("bpf", "BPF maps can be created");
  return fatal(
      "bpf", refused("could not create a BPF map", facts.bpf_error),
      "in the unit, SystemCallFilter= must allow bpf (@privileged has it); in a container, "
      "its seccomp profile");
}

CheckPoint check_perf_event(const HostFacts& facts) {
  if (facts.perf_event_error == 0) return ok("perf_event", "perf events can be opened");
  return fatal("perf_event",
               refused("could not open perf events of all processes", facts.perf_event_error),
               "in the unit, SystemCallFilter= must allow perf_event_open (@debug has it); in a "
               "container, its seccomp profile");
}

CheckPoint check_openat2(const HostFacts& facts) {
  if (facts.openat2_error == 0) return ok("openat2", "openat2 is allowed");
  return fatal("openat2", refused("could not call openat2", facts.openat2_error),
               "in the unit, leave out RestrictSUIDSGID= and DynamicUser=, which forbid it; in a "
               "container, its seccomp profile must allow it");
}

CheckPoint check_map_files(const HostFacts& facts) {
  if (facts.map_files_error == 0) return ok("map_files", "mapped files can be opened");
  return fatal(
      "map_files", refused("could not open a file in /proc/PID/map_files", facts.map_files_error),
      "allow CAP_CHECKPOINT_RESTORE, and leave ProtectProc=, ProcSubset= and PrivateUsers= "
      "out of the unit");
}

CheckPoint check_other_processes(const HostFacts& facts) {
  if (facts.other_maps_error == 0)
    return ok("other_processes", "/proc shows the mappings of other processes");
  return fix(
      "other_processes",
      refused("could not read the mappings of other processes in /proc", facts.other_maps_error),
      "in the unit, allow CAP_SYS_PTRACE and leave out PrivateUsers=; /proc mounted with "
      "hidepid= hides them too");
}

CheckPoint check_pid_namespace(const HostFacts& facts) {
  if (facts.has_host_pids) return ok("pid_namespace", "the PID namespace of the host");
  return fix("pid_namespace",
             "profd is in a PID namespace of its own: it does not profile the processes outside",
             "run it in that of the host: podman and docker have --pid=host, Kubernetes hostPID: "
             "true");
}

CheckPoint check_kallsyms(const HostFacts& facts) {
  if (facts.kallsyms_error == 0) return ok("kallsyms", "kernel functions have names");
  if (facts.kallsyms_error != ENODATA) {
    return fix("kallsyms", refused("could not read /proc/kallsyms", facts.kallsyms_error),
               "in the unit, leave out ProtectKernelTunables= and ProcSubset=pid, which hide it: "
               "kernel functions have no names");
  }
  return fix("kallsyms", "/proc/kallsyms has no addresses: kernel functions have no names",
             facts.kptr_restrict >= 2
                 ? "set kernel.kptr_restrict to 1: sysctl kernel.kptr_restrict=1"
                 : "allow CAP_SYSLOG, which ProtectKernelLogs= takes away in a unit");
}

CheckPoint check_pmu(const HostFacts& facts) {
  if (facts.cycles_error == 0) return ok("pmu", "hardware events can be sampled");
  const bool is_absent = facts.cycles_error == ENOENT || facts.cycles_error == ENODEV ||
                         facts.cycles_error == EOPNOTSUPP;
  const std::string why =
      is_absent ? "this host has no hardware counters (PMU), which events like cycles need"
                : refused("could not open hardware events like cycles", facts.cycles_error);
  CheckPoint point = ok("pmu", why + "; the CPU clock, which is the default, needs none");
  point.state = CheckState::kNote;
  return point;
}

}  // namespace

CheckReport check_host(const HostFacts& facts) {
  return {check_kernel(facts),
          check_btf(facts),
          check_lockdown(facts),
          of_rights(check_capabilities(facts)),
          of_rights(check_bpf(facts)),
          of_rights(check_perf_event(facts)),
          check_openat2(facts),
          of_rights(check_map_files(facts)),
          of_rights(check_other_processes(facts)),
          check_pid_namespace(facts),
          of_rights(check_kallsyms(facts)),
          of_rights(check_pmu(facts))};
}

std::vector<Error> missing_features(const HostFacts& facts) {
  std::vector<Error> missing;
  for (CheckPoint& point : check_host(facts)) {
    if (point.state != CheckState::kFatal) continue;
    missing.push_back(
        fail(ErrorCode::kUnsupported, std::move(point.message), std::move(point.hint)));
  }
  return missing;
}

}  // namespace profd
