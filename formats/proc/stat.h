// /proc/PID/stat (proc_pid_stat(5)).

#pragma once

#include <fcntl.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

// Times in clock ticks (sysconf(_SC_CLK_TCK)).
struct ProcessStat {
  std::uint32_t parent_pid = 0;
  std::uint32_t flags = 0;  // PF_* of the kernel's include/linux/sched.h
  std::uint64_t user_ticks = 0;
  std::uint64_t system_ticks = 0;
  std::uint64_t start_ticks = 0;  // since boot

  [[nodiscard]] bool is_kernel_thread() const { return (flags & 0x00200000) != 0; }  // PF_KTHREAD

  friend bool operator==(const ProcessStat&, const ProcessStat&) = default;
};

// kMalformed: `text` does not have the fields up to the start time.
[[nodiscard]] Result<ProcessStat> parse_process_stat(std::string_view text);

// Reads the file at `path` and parses it. A relative path starts at the directory that `directory`
// is open on.
[[nodiscard]] Result<ProcessStat> read_process_stat(const std::string& path,
                                                    int directory = AT_FDCWD);

}  // namespace profd
