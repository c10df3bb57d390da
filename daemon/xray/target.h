// A process whose calls are recorded, and its program. Any thread; reads /proc.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collectors/files/bounded_runner.h"
#include "collectors/files/mapped_file.h"
#include "formats/base/result.h"

namespace profd {

struct XrayTarget {
  pid_t pid = 0;
  std::uint64_t start_time_ns = 0;  // since boot, in the kernel's clock ticks
  std::string comm;
  std::optional<std::string> unit;       // systemd unit, from the cgroup
  std::optional<std::string> container;  // container id, from the cgroup
  std::shared_ptr<const MappedFile> program;
};

// Opens the program on a thread of `runner`, since its file system may hang. kNotFound: no such
// process; kTimeout: the program does not open in time.
[[nodiscard]] Result<XrayTarget> find_xray_target(pid_t pid, BoundedRunner& runner);

// From /proc/PID/status; none where there is no such process.
[[nodiscard]] std::optional<uid_t> effective_uid_of(pid_t pid);

}  // namespace profd
