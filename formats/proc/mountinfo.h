// /proc/PID/mountinfo (proc_pid_mountinfo(5)): the mounts that a process sees.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace profd {

struct Mount {
  std::uint64_t id = 0;      // as statx() returns it in stx_mnt_id
  std::string mount_point;   // relative to the root of the process
  std::string file_system;   // "ext4", "fuse.sshfs"
  std::uint32_t device = 0;  // major << 20 | minor, as the kernel encodes it

  friend bool operator==(const Mount&, const Mount&) = default;
};

// In file order. Lines of another form are left out.
[[nodiscard]] std::vector<Mount> parse_mountinfo(std::string_view text);

// Whether another process answers the requests to this file system; one that does not answer
// blocks the caller for ever.
[[nodiscard]] bool is_fuse(std::string_view file_system);

// Whether its files are those of other file systems.
[[nodiscard]] bool is_overlay(std::string_view file_system);

}  // namespace profd
