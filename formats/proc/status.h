// /proc/PID/status (proc_pid_status(5)): the ids, signals and capabilities of a process.

#pragma once

#include <fcntl.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

struct ProcessStatus {
  // Each list: real, effective, saved, file system.
  std::array<std::uint32_t, 4> uids{};
  std::array<std::uint32_t, 4> gids{};
  std::uint32_t namespace_pid = 0;   // in the innermost PID namespace of the process
  std::uint64_t caught_signals = 0;  // bit N - 1 stands for signal N
  std::uint64_t permitted_capabilities = 0;
  std::uint64_t effective_capabilities = 0;

  [[nodiscard]] std::uint32_t real_uid() const { return uids[0]; }
  [[nodiscard]] std::uint32_t effective_uid() const { return uids[1]; }
  [[nodiscard]] std::uint32_t effective_gid() const { return gids[1]; }

  friend bool operator==(const ProcessStatus&, const ProcessStatus&) = default;
};

// kMalformed: a line is missing or does not have the documented form. A kernel without PID
// namespaces writes no "NSpid:" line; namespace_pid then comes from "Pid:".
[[nodiscard]] Result<ProcessStatus> parse_process_status(std::string_view text);

// Reads the file at `path` and parses it. A relative path starts at the directory that `directory`
// is open on.
[[nodiscard]] Result<ProcessStatus> read_process_status(const std::string& path,
                                                        int directory = AT_FDCWD);

}  // namespace profd
