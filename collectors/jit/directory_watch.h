// Tells of files with a JIT runtime's names as they appear in directories where anyone may make
// them: the host's /tmp, and those of the configuration.
//
// A file is opened and held at once, so that neither its unlinking nor the end of its container
// loses it. How many are held is bounded, also for one owner; those held longest go first, and
// those without a name after some minutes, since they take room on a disk that nobody can see. What
// the kernel's queue could not hold is found otherwise, or not. Not thread safe.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectors/jit/open_file.h"
#include "collectors/jit/scan.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// The host's /tmp, whatever our own is.
inline constexpr const char* kHostTmp = "/proc/1/root/tmp";

// A directory that is watched, under the path that it was asked for by.
struct WatchedPlace {
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
};

// Whether a process sees the directory: as its /tmp, as its working directory, or under the same
// path in its own root. Waits for file systems, as jit_look.h does.
[[nodiscard]] bool is_seen_by(const ProcessKey& process, const WatchedPlace& place);

class DirectoryWatch {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kMaxHeld = 1024;
  static constexpr std::size_t kMaxHeldOfOwner = 64;
  static constexpr std::chrono::minutes kMaxUnlinked{10};
  static constexpr std::chrono::minutes kCheckInterval{1};
  static constexpr std::size_t kMaxDirectories = 64;
  static constexpr std::size_t kMaxOpens = 256;  // in a second: whoever makes files costs us these

  // Opens a file in a directory: open_jit_file(), or a way to it that can't hang.
  using Open =
      std::function<JitOpening(int directory, const std::string& name, const JitFileRules& rules)>;

  // Directories that are not there are left out. An error only where the kernel can watch nothing.
  static Result<std::unique_ptr<DirectoryWatch>> open(const std::vector<std::string>& directories,
                                                      Open open_file);
  DirectoryWatch(const DirectoryWatch&) = delete;
  DirectoryWatch& operator=(const DirectoryWatch&) = delete;

  // Readable when a file appeared, of whatever name.
  [[nodiscard]] int fd() const { return notify_.get(); }

  // Holds what appeared since, and tells of each file.
  struct Appeared {
    std::uint32_t pid = 0;  // as named
    std::uint32_t owner = 0;
    JitFileKind kind = JitFileKind::kJitDump;
  };
  std::vector<Appeared> take();

  // Call each kCheckInterval: lets go of files that were unlinked kMaxUnlinked ago.
  void let_go_of_unlinked(Clock::time_point now);

  // Held files named after a pid: those of one user, or root.
  struct Found {
    std::shared_ptr<const JitFile> file;
    WatchedPlace place;
  };
  [[nodiscard]] std::vector<Found> find(std::uint32_t pid, std::uint32_t uid) const;

  [[nodiscard]] std::size_t held() const { return held_.size(); }
  [[nodiscard]] std::vector<JitRefusal> take_refusals() { return std::move(refusals_); }

 private:
  struct Directory {
    int watch = -1;
    WatchedPlace place;
    UniqueFd fd;
  };
  struct Held {
    std::uint32_t pid = 0;
    std::shared_ptr<const JitFile> file;
    WatchedPlace place;
    std::optional<Clock::time_point> unlinked;  // seen to be
  };

  DirectoryWatch(UniqueFd notify, Open open_file)
      : notify_(std::move(notify)), open_file_(std::move(open_file)) {}
  void add_directory(const std::string& path);
  [[nodiscard]] std::optional<Appeared> hold(const Directory& directory, const std::string& name,
                                             const NamedJitFile& named);
  [[nodiscard]] bool may_open();
  void refuse(JitRefusal reason);
  void make_room(std::uint32_t owner);

  UniqueFd notify_;
  Open open_file_;
  std::vector<Directory> directories_;
  std::deque<Held> held_;  // the oldest first
  std::vector<JitRefusal> refusals_;
  Clock::time_point second_began_;
  std::size_t opened_in_second_ = 0;
};

}  // namespace profd
