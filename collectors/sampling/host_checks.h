// Can profd sample here? Each thing that is missing in one line, with what to do about it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/result.h"

namespace profd {

struct HostFacts {
  std::string kernel_release;      // uname -r
  bool has_btf = false;            // /sys/kernel/btf/vmlinux
  bool is_root = false;            // effective uid 0
  std::uint64_t capabilities = 0;  // effective set, bit per CAP_*
  std::string
      lockdown;  // "none", "integrity", "confidentiality"; empty where the kernel has no lockdown
};

[[nodiscard]] HostFacts read_host_facts();

// Empty when profd can run. In the order in which they should be mended.
[[nodiscard]] std::vector<Error> missing_features(const HostFacts& facts);

}  // namespace profd
