// Opens JIT sources in places where any user may have put any kind of file.
//
// A file is first found (O_PATH), then checked, and only then opened for reading: a FIFO, device or
// socket is never opened. Links are not followed, leases do not make the open wait, and a FUSE file
// system is asked nothing. A path walk may still hang in a file system: call on a thread that may
// be late (collectors/files/bounded_runner.h).

#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collectors/jit/stats.h"
#include "formats/base/unique_fd.h"

namespace profd {

inline constexpr std::uint64_t kMaxJitFileBytes = std::uint64_t{16} << 30;

enum class JitFileKind : std::uint8_t { kJitDump, kPerfMap };

// The identity of a file, and of the user whose share it takes: a file of root in processes of
// several users is read for each of them.
struct JitFileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint32_t owner = 0;  // uid whose share it takes

  friend auto operator<=>(const JitFileId&, const JitFileId&) = default;
};

// An open file, which outlives its name and its process. Immutable: the worker may have it too.
struct JitFile {
  JitFileId id;
  JitFileKind kind = JitFileKind::kJitDump;
  std::string path;             // the process's name for it, for messages
  bool is_private = false;      // root's, and not everybody may read it: for root's processes only
  std::int64_t changed_ns = 0;  // change time and, where the file system has it, birth time, at the
  std::int64_t born_ns = 0;     // open: they distinguish files that have one inode in turn
  std::shared_ptr<const UniqueFd> fd{};
};

// Which files are accepted.
struct JitFileRules {
  JitFileKind kind = JitFileKind::kJitDump;
  // The process's effective uid. Files of root that everybody may read are accepted too, except
  // where users make the mounts.
  std::uint32_t uid = 0;
  std::uint32_t real_uid = 0;      // the process's real uid, whose share a file of root takes
  bool any_owner = false;          // the process is not known yet: uid and mode are checked later
  std::uint32_t tgid = 0;          // whose mountinfo says what is FUSE; 0: the daemon's own
  std::int64_t not_before_ns = 0;  // real time: a file last written earlier is of another process
  std::string shown_in{};          // the process's name for the directory, with a slash at its end
};

// A file, or a reason, or neither where there is no such file.
struct JitOpening {
  std::shared_ptr<const JitFile> file{};
  std::optional<JitRefusal> refusal{};
};

// statx() with what the kernel has cached: a FUSE file system is not asked, since it may never
// answer.
[[nodiscard]] bool stat_cached(int fd, unsigned mask, struct statx& status);

// As in JitFileId.
[[nodiscard]] constexpr std::uint64_t device_of(const struct statx& status) {
  return std::uint64_t{status.stx_dev_major} << 32 | std::uint64_t{status.stx_dev_minor};
}

[[nodiscard]] bool is_same_file(const JitFile& a, const JitFile& b);

// The same file, counted for another owner: a file of root takes the share of a process's user.
[[nodiscard]] std::shared_ptr<const JitFile> with_owner(const JitFile& file, std::uint32_t owner);

// A directory, or a reason, or neither where there is no such directory.
struct JitDirectory {
  UniqueFd fd{};
  std::optional<JitRefusal> refusal{};
};

// A directory of the process `tgid`: `link` is "root" or "cwd" of /proc/PID, `path` is looked up
// inside. Where the mount of the link may hang, only names that the kernel has cached are found, so
// that no file system is asked: the place of another mount, such as the /tmp of a container, is.
[[nodiscard]] JitDirectory open_directory_of(int proc_directory, std::uint32_t tgid,
                                             const char* link, const std::string& path);

// `name` is one component.
[[nodiscard]] JitOpening open_jit_file(int directory, const std::string& name,
                                       const JitFileRules& rules);

// Opens the file behind a link of /proc/PID, "map_files/START-END", also when it is deleted.
[[nodiscard]] JitOpening open_mapped_jit_file(int proc_directory, const char* link,
                                              const std::string& path, const JitFileRules& rules);

}  // namespace profd
