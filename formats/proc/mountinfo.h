// /proc/PID/mountinfo (proc_pid_mountinfo(5)): the mounts that a process sees.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace profd {

struct Mount {
  std::uint64_t id = 0;      // as statx() returns it in stx_mnt_id
  std::string mount_point;   // relative to the root of the process
  std::string file_system;   // "ext4", "fuse.sshfs"
  std::uint32_t device = 0;  // major << 20 | minor, as the kernel encodes it
  // Of FUSE: who mounted it, and whose process may answer for it. A uid of the user namespace that
  // it was mounted in.
  std::optional<std::uint32_t> fuse_user{};

  friend bool operator==(const Mount&, const Mount&) = default;
};

// None for a line of another form.
[[nodiscard]] std::optional<Mount> parse_mountinfo_line(std::string_view line);

// A user decides how long the list of a namespace is, and how much time the kernel takes for a
// line: 1 ms where a mount lies on 50,000 others at one place. A read returns a page of lines, and
// the time is checked after each.
struct MountListLimits {
  std::size_t bytes = 0;
  std::chrono::milliseconds cpu_time{};  // of the calling thread, also in the kernel
};

// Reads a list from the position of `fd` and calls `visit` for each mount, in file order, until
// `visit` returns false, the list ends, a read fails or a limit is reached. No more than 128 KiB of
// the list are in memory: of a line, the first 64 KiB are used. Lines of another form are left out.
void visit_mounts(int fd, const MountListLimits& limits,
                  const std::function<bool(const Mount&)>& visit);

// Whether another process answers the requests to this file system; one that does not answer
// blocks the caller for ever.
[[nodiscard]] bool is_fuse(std::string_view file_system);

// Whether its files are those of other file systems.
[[nodiscard]] bool is_overlay(std::string_view file_system);

}  // namespace profd
