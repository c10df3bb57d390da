// A process whose calls are recorded, and its program. Any thread; reads /proc.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collectors/files/bounded_runner.h"
#include "collectors/files/file_closer.h"
#include "collectors/files/mapped_file.h"
#include "formats/base/result.h"

namespace profd {

struct XrayTarget {
  pid_t pid = 0;
  std::uint64_t start_time_ns = 0;  // since boot, in the kernel's clock ticks
  std::string comm;
  std::optional<std::string> unit;            // systemd unit, from the cgroup
  std::optional<std::string> container;       // container id, from the cgroup
  std::shared_ptr<const MappedFile> program;  // closed on the thread of a FileCloser
};

// Opens the program on a thread of `runner`, since its file system may hang, and lets `closer`
// close it, since it may be deleted by then. kNotFound: no such process; kTimeout: the program does
// not open in time; kBusy: too many files wait to be closed to open one of a user's process.
[[nodiscard]] Result<XrayTarget> find_xray_target(pid_t pid, BoundedRunner& runner,
                                                  FileCloser& closer);

// From /proc/PID/status; none where there is no such process.
[[nodiscard]] std::optional<uid_t> effective_uid_of(pid_t pid);

}  // namespace profd
