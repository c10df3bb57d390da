// Reports files with the name of a JIT source as they appear in the directories where runtimes
// write them: the host's /tmp, and those of the configuration.
//
// A file is opened and held at once, so that neither its unlinking nor the end of its container
// loses it. The number of held files is limited, also for one owner: the ones held longest go
// first, and unlinked ones after some minutes, since they take disk space that nobody can see.
// Where the kernel's queue had no room for all events, the directories are scanned for the files
// that changed since it was last empty. Not thread-safe.

#pragma once

#include <dirent.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectors/host/uid_owners.h"
#include "collectors/jit/events.h"
#include "collectors/jit/open_file.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// The host's /tmp; the service has a /tmp of its own.
inline constexpr const char* kHostTmp = "/proc/1/root/tmp";

// A watched directory. `path` is the one that the configuration has.
struct WatchedPlace {
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
};

// Whether the directory is a process's /tmp or working directory, or has the same path in its root.
// May wait for file systems, as a scan does.
[[nodiscard]] bool is_seen_by(const ProcessKey& process, const WatchedPlace& place);

class DirectoryWatch {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kMaxHeld = 1024;
  static constexpr std::size_t kMaxHeldOfUsers = kMaxHeld / 2;  // of all but root
  static constexpr std::size_t kMaxHeldOfOwner = 64;
  static constexpr std::chrono::minutes kMaxUnlinked{10};
  static constexpr std::chrono::minutes kCheckInterval{1};
  static constexpr std::size_t kMaxDirectories = 64;
  // A second, since any user can make files. All users but root have half of them.
  static constexpr std::size_t kMaxOpens = 256;
  static constexpr std::size_t kMaxOpensOfOwner = kMaxOpens / 8;
  // Of the kernel's events, and of names in a scan, in one take(): any user can make more of them
  // while they are read.
  static constexpr std::size_t kMaxEventBytes = std::size_t{64} << 10;
  static constexpr std::size_t kMaxScanned = 2048;

  // open_jit_file(), or a form of it that cannot hang.
  using Open =
      std::function<JitOpening(int directory, const std::string& name, const JitFileRules& rules)>;

  // Skips directories that do not exist. An error only where the kernel can watch nothing.
  static Result<std::unique_ptr<DirectoryWatch>> open(const std::vector<std::string>& directories,
                                                      Open open_file,
                                                      UidOwners owners = UidOwners());
  DirectoryWatch(const DirectoryWatch&) = delete;
  DirectoryWatch& operator=(const DirectoryWatch&) = delete;

  // Readable when a file with any name appeared.
  [[nodiscard]] int fd() const { return notify_.get(); }
  // Whether take() has more to do, also while fd() is not readable.
  [[nodiscard]] bool is_scanning() const { return scan_ || lost_since_ns_; }

  // Opens the files that appeared since the last call, and reports each of them; counts refusals.
  // What is over a limit is left to the next call.
  std::vector<JitFileSeen> take(JitStats& stats);

  // Closes the files that were unlinked kMaxUnlinked ago. Call at each kCheckInterval.
  void release_unlinked(Clock::time_point now);

  struct Held {
    std::uint32_t pid = 0;
    std::shared_ptr<const JitFile> file;
    WatchedPlace place;
    std::optional<Clock::time_point> unlinked;  // when that was noticed
  };
  // The held files that are named after a pid and may be of a process of this user: those of the
  // user, and those of root that the user may read.
  [[nodiscard]] std::vector<Held> find(std::uint32_t pid, std::uint32_t uid) const;

  [[nodiscard]] std::size_t held() const { return held_.size(); }

 private:
  struct Directory {
    int watch = -1;
    WatchedPlace place;
    UniqueFd fd;
  };
  struct CloseListing {
    void operator()(DIR* listing) const { ::closedir(listing); }
  };
  // Of all directories, for files that changed since then.
  struct Scan {
    std::int64_t since_ns = 0;                     // real time
    std::size_t directory = 0;                     // index
    std::unique_ptr<DIR, CloseListing> listing{};  // null: not begun, or it cannot be read
  };

  DirectoryWatch(UniqueFd notify, Open open_file, UidOwners owners)
      : notify_(std::move(notify)), open_file_(std::move(open_file)), owners_(std::move(owners)) {}
  void add_directory(const std::string& path);
  void take_events(JitStats& stats, std::vector<JitFileSeen>& appeared);
  void scan(JitStats& stats, std::vector<JitFileSeen>& appeared);
  [[nodiscard]] bool may_be_lost(const Directory& directory, const std::string& name) const;
  [[nodiscard]] std::optional<JitFileSeen> hold(const Directory& directory, const std::string& name,
                                                const NamedJitFile& named, JitStats& stats);
  [[nodiscard]] std::optional<JitRefusal> refusal_of(std::uint32_t owner);
  void make_room(std::uint32_t owner);

  UniqueFd notify_;
  Open open_file_;
  UidOwners owners_;
  std::vector<Directory> directories_;
  std::deque<Held> held_;                      // the oldest first
  std::int64_t empty_ns_ = 0;                  // real time when the kernel's queue was empty
  std::optional<std::int64_t> lost_since_ns_;  // real time; set: events were lost
  std::optional<Scan> scan_;
  Clock::time_point second_began_;
  std::map<std::uint32_t, std::size_t> opened_in_second_;  // by the user whose uid it is
};

}  // namespace profd
