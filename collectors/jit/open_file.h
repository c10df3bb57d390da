// Opens a file that a JIT runtime may have written, where anyone may have laid something else.
//
// The place is found first (O_PATH), looked at, and only then opened for reading: a FIFO, device or
// socket is never opened. Links are not followed, leases don't make us wait, and of a FUSE file
// nothing is asked. A path walk may still hang in a file system: call on a thread that may be late
// (bounded_runner.h).

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collectors/jit/stats.h"
#include "formats/base/unique_fd.h"

namespace profd {

enum class JitFileKind : std::uint8_t { kJitDump, kPerfMap };

// Which file it is, whatever it is called, and whose share it takes: root's file that a user's
// process has too is read for each of them.
struct JitFileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint32_t payer = 0;

  friend auto operator<=>(const JitFileId&, const JitFileId&) = default;
};

// A file that is held from its first sight on: immutable, may go to the worker, outlives its name
// and its process.
struct JitFile {
  JitFileId id;
  JitFileKind kind = JitFileKind::kJitDump;
  std::string path;             // as its process names it; for messages
  std::uint32_t owner = 0;      // whose share it takes: root's file in another user's process, his
  std::int64_t changed_ns = 0;  // its change time and, where the file system has one, its birth,
  std::int64_t born_ns = 0;     // when it was opened: a number (inode) comes to be another file's
  UniqueFd fd{};
};

// Who it should belong to, and how it may look.
struct JitFileRules {
  JitFileKind kind = JitFileKind::kJitDump;
  std::uint32_t uid = 0;           // the process's effective one; root's files count as its own
  std::uint32_t payer = 0;         // the process's real one, whose share root's files take
  bool any_owner = false;          // seen before its process is known: checked when that is
  std::uint32_t tgid = 0;          // whose list of mounts tells what FUSE is; 0: our own
  std::int64_t not_before_ns = 0;  // real time; last written earlier: another process's
  std::string shown_in{};          // the directory as its process names it, with a slash at its end
};

// One of: a file; a reason; neither, where there is no such file.
struct JitOpening {
  std::shared_ptr<const JitFile> file;
  std::optional<JitRefusal> refusal;
};

[[nodiscard]] bool is_same_file(const JitFile& a, const JitFile& b);

// A file of root's as it counts for a user's process, whose share it takes; null where there are no
// descriptors.
[[nodiscard]] std::shared_ptr<const JitFile> with_payer(const JitFile& file, std::uint32_t payer);

// A directory of a process: `link` is "root" or "cwd" of /proc/PID, `path` is looked up inside.
// Invalid where there is none, or it lies on FUSE (then `on_fuse`).
[[nodiscard]] UniqueFd open_directory_of(int proc_directory, const char* link,
                                         const std::string& path);

// `name` is one component.
[[nodiscard]] JitOpening open_jit_file(int directory, const std::string& name,
                                       const JitFileRules& rules);

// By a link of /proc/PID, "map_files/START-END": the mapped file itself, also when it is deleted.
[[nodiscard]] JitOpening open_mapped_jit_file(int proc_directory, const char* link,
                                              const std::string& path, const JitFileRules& rules);

}  // namespace profd
