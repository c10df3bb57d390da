// The names that were looked up, by file, so that each address of a file is looked up once.
//
// Files with one build id share their names if they have one owner: any user can copy the build id
// of another user's file. The memory is limited. When the names take more, the least recently used
// files are dropped: first those of users who have more than an eighth of the cache each, then
// those of all users if they have more than half of it together, then any. A file that samples of
// root hit is root's, and not a user's. What a user's programs left behind goes soon: of the files
// that only users hit, those without a sample for minutes get a small part of the cache together.
// Those of root get an eighth: names and lines of a program that runs now and then, such as a
// compiler, take long to find again. On a worker.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "daemon/names/name_table.h"

namespace profd {

class NameCache {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  static constexpr std::chrono::minutes kUnused{2};
  static constexpr std::size_t kUnusedPart = 32;  // of the cache, for unused files of users
  static constexpr std::size_t kUnusedPartOfRoot = 8;

  explicit NameCache(std::size_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}

  // The names of a file, by its identity; empty at first. Valid until the next trim().
  NameTable& names_of(const std::string& identity, Clock::time_point now = Clock::now());

  // Samples of this user hit the file, whose names are there. Those of a file that root hits are
  // root's, and those of a file that several users hit are of all users together, as are those that
  // nobody has hit yet.
  void add_payer(const std::string& identity, std::uint32_t payer);

  // NameTable::mark_stale() for all files.
  void mark_stale();

  // Drops files until the limits are kept.
  void trim(Clock::time_point now = Clock::now());

  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] std::size_t files() const { return files_.size(); }

 private:
  struct File {
    NameTable names;
    std::list<std::string>::iterator recency;
    Clock::time_point used_at;
    std::optional<std::uint32_t> payer{};  // none: nobody yet, or several users
    bool is_of_several = false;

    [[nodiscard]] std::size_t bytes() const;
  };
  struct Usage {
    std::size_t all = 0;
    std::size_t users = 0;  // without root
    std::map<std::uint32_t, std::size_t> by_user{};
    void add(const File& file);
    void remove(const File& file);
  };
  static constexpr std::uint32_t kRoot = 0;

  // Drops such files until the limit is kept, the oldest first.
  void drop(Usage& used, const std::function<bool(const File&)>& is_dropped);
  void drop_unused(Clock::time_point now);

  std::size_t max_bytes_;
  std::map<std::string, File> files_;
  std::list<std::string> recency_;  // the most recent first
};

}  // namespace profd
