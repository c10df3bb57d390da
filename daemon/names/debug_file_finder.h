// Finds the debug file of a file whose code is named, at the places of debug_file_places.h, and has
// the parser check that it belongs to the file: by build id, else by the checksum in
// .gnu_debuglink. On a worker.

#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectors/files/bounded_runner.h"
#include "collectors/files/debug_file_places.h"
#include "collectors/files/file_closer.h"
#include "collectors/parser/parser.h"
#include "daemon/names/naming_stats.h"
#include "formats/base/pool_map.h"
#include "formats/base/seeded_hash.h"

namespace profd {

// A process that has mapped a file.
struct HitProcess {
  std::uint32_t tgid = 0;
  std::uint32_t payer = 0;  // the user whose it is, who can make an open below its root block
  // By which it knows the file, in its root; null: by DebugFileQuery::path.
  std::shared_ptr<const std::string> own_path{};
};

struct DebugDirectories {
  std::string host = kDebugRoot;
  std::string cache = kDebugCache;
};

class DebugFileFinder {
 public:
  // Processes whose root is searched for one file, at once, each of another user.
  static constexpr std::size_t kMaxProcesses = 2;

  struct Wanted {
    int fd = -1;           // the file
    std::string identity;  // as file_identity() has it
    DebugFileQuery query;
    std::span<const HitProcess> processes{};
  };

  // `parser` must outlive *this.
  explicit DebugFileFinder(Parser& parser, DebugDirectories directories = {})
      : parser_(parser), directories_(std::move(directories)) {}

  struct Found {
    std::shared_ptr<const UniqueFd> file;  // null: none. Closed on another thread (FileCloser)
    bool is_private = false;               // not all users may see the names in it

    [[nodiscard]] int fd() const { return file ? file->get() : -1; }
  };

  // That there is none is remembered for a while, for the roots that were searched: a user can hide
  // a debug file in a mount namespace of his own. It is not remembered where a file could not be
  // checked for want of time. `time_left` is that of the owner's files: less is left afterwards,
  // unless all is root's.
  [[nodiscard]] Found find(const Wanted& wanted, std::chrono::nanoseconds& time_left);

  // Whether find() would search a root that it has not searched for this file for a while.
  [[nodiscard]] bool is_due(const Wanted& wanted) { return !due_processes(wanted).empty(); }

  // Whether debug files were added or removed since the last call.
  bool have_changed();

  // Forgets searches that are due again.
  void trim(std::chrono::steady_clock::time_point now);

  [[nodiscard]] const DebugFileStats& stats() const { return stats_; }

 private:
  using Verdict = std::optional<DebugFileRefusal>;  // none: it is the file's
  // The file's identity; device, inode, change time and size of its debug file.
  using Pair = std::pair<std::string, std::array<std::uint64_t, 4>>;

  struct DueProcess {
    HitProcess process;
    std::uint64_t search;
  };

  // Those of the processes whose root was not searched for a while, as many as find() searches.
  [[nodiscard]] std::vector<DueProcess> due_processes(const Wanted& wanted);
  // A number that no process can predict: of the file's identity, who sees its names, the root of
  // the process (an empty one where none is known or it has ended), and the path there where
  // .gnu_debuglink is relative to it.
  std::uint64_t search_of(const Wanted& wanted, const HitProcess& process);
  const RootId& root_of(std::uint32_t tgid);
  DebugFileAt search(const Wanted& wanted, std::span<const DueProcess> processes,
                     std::chrono::nanoseconds& time_left);
  std::vector<DebugFileAt> open_in_roots(const Wanted& wanted,
                                         std::span<const DueProcess> processes);
  bool is_accepted(const Wanted& wanted, const DebugFileAt& file,
                   std::chrono::nanoseconds& time_left);
  Verdict judge(const Wanted& wanted, int debug_fd, std::chrono::nanoseconds& time_left);
  Verdict match(int fd, int debug_fd);
  std::uint64_t& refused(DebugFileRefusal refusal) {
    return stats_.refused.at(static_cast<std::size_t>(refusal));
  }

  Parser& parser_;
  DebugDirectories directories_;
  FileCloser closer_;
  BoundedRunner runner_;
  std::map<Pair, Verdict> verdicts_;
  const std::uint64_t seed_ = random_seed();
  PoolMap<std::uint64_t, std::chrono::steady_clock::time_point> missing_;  // found nothing
  // By tgid, for a moment: many files are asked for one after the other.
  std::map<std::uint32_t, RootId> roots_;
  std::chrono::steady_clock::time_point roots_since_{};
  std::array<std::size_t, 2> changes_{};  // of the host's directory and the cache
  std::minstd_rand random_{std::random_device()()};
  DebugFileStats stats_;
};

}  // namespace profd
