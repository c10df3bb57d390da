#include "collectors/sampling/host_checks.h"

#include <linux/capability.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

namespace profd {
namespace {

constexpr std::pair<unsigned, unsigned> kOldestKernel{
    6, 1};  // the maple tree, which the unwinder walks

struct Capability {
  unsigned bit;
  std::string_view name;
  bool implied_by_sys_admin;
};

// What each is for: loading programs; opening events; reading other processes' /proc; opening their
// map_files; reading binaries that only their owner may; kernel symbol addresses.
constexpr std::array kNeeded = {
    Capability{CAP_BPF, "CAP_BPF", true},
    Capability{CAP_PERFMON, "CAP_PERFMON", true},
    Capability{CAP_SYS_PTRACE, "CAP_SYS_PTRACE", false},
    Capability{CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", true},
    Capability{CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", false},
    Capability{CAP_SYSLOG, "CAP_SYSLOG", true},
};

std::string read_line_starting(const char* path, std::string_view prefix) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(prefix)) return line.substr(prefix.size());
  }
  return {};
}

std::uint64_t effective_capabilities() {
  std::istringstream text(read_line_starting("/proc/self/status", "CapEff:"));
  std::uint64_t mask = 0;
  text >> std::hex >> mask;
  return mask;
}

// "none [integrity] confidentiality": the one in brackets is in force.
std::string lockdown_in_force() {
  const std::string line = read_line_starting("/sys/kernel/security/lockdown", "");
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return line.substr(open + 1, close - open - 1);
}

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

}  // namespace

HostFacts read_host_facts() {
  HostFacts facts;
  utsname name{};
  if (::uname(&name) == 0) facts.kernel_release = name.release;
  facts.has_btf = ::access("/sys/kernel/btf/vmlinux", R_OK) == 0;
  facts.is_root = ::geteuid() == 0;
  facts.capabilities = effective_capabilities();
  facts.lockdown = lockdown_in_force();
  return facts;
}

std::vector<Error> missing_features(const HostFacts& facts) {
  std::vector<Error> missing;
  if (parse_release(facts.kernel_release) < kOldestKernel) {
    missing.push_back(fail(ErrorCode::kUnsupported,
                           "kernel " + facts.kernel_release + " is older than 6.1",
                           "boot Linux 6.1 or later"));
  }
  if (const std::string names = missing_capabilities(facts.capabilities); !names.empty()) {
    const std::string who = facts.is_root ? "root without " : "not root, and no ";
    missing.push_back(fail(ErrorCode::kUnsupported, who + names,
                           facts.is_root ? "allow these capabilities to the container or unit"
                                         : "run as root, or with these capabilities"));
  }
  if (!facts.has_btf) {
    missing.push_back(fail(ErrorCode::kUnsupported,
                           "the kernel has no BTF (/sys/kernel/btf/vmlinux can't be read)",
                           "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y, and mount /sys"));
  }
  if (facts.lockdown == "confidentiality") {
    missing.push_back(
        fail(ErrorCode::kUnsupported,
             "kernel lockdown is 'confidentiality', which stops BPF from reading memory",
             "boot with lockdown=integrity"));
  }
  return missing;
}

}  // namespace profd
