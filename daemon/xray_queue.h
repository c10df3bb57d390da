// The traces that wait to be read, fairly between those who own them.
//
// Anyone may leave as many as he likes, and each may take a minute to read. So each owner has a few
// places and a time to be read in, the owners take turns, and a file waits once however often it is
// closed. What one owner does costs another no trace, and at most one reading's wait. Not
// thread-safe.

#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "formats/result.h"
#include "formats/unique_fd.h"

namespace profd {

// Nanoseconds of the last change of a file. Nobody can set it but by changing the file.
[[nodiscard]] std::int64_t changed_ns(const struct stat& status);

class XrayQueue {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kMaxOwners = 64;
  static constexpr std::size_t kMaxOfOwner = 8;
  static constexpr std::size_t kMaxOfRoot = 64;
  static constexpr std::uint64_t kMaxLogBytes = std::uint64_t{4} << 30;
  // Of one owner's readings, failed ones too; root's are not counted.
  static constexpr std::chrono::seconds kMaxReading{120};
  static constexpr std::chrono::seconds kReadingWindow{600};

  struct Log {
    std::string name;
    UniqueFd file;
    uid_t owner = 0;
  };

  // `status` is of `log.file`. False: the same file waits already, or was seen as it is. An error
  // says why it is refused.
  Result<bool> add(Log log, const struct stat& status, Clock::time_point now);

  // The first one of the owner whose turn it is.
  std::optional<Log> next();

  void spent(uid_t owner, std::chrono::nanoseconds time, Clock::time_point now);

  [[nodiscard]] bool empty() const { return size_ == 0; }
  void clear();

 private:
  using FileKey = std::pair<dev_t, ino_t>;
  struct Waiting {
    Log log;
    FileKey file;
  };
  struct Spent {
    Clock::time_point since;
    std::chrono::nanoseconds time{};
  };

  [[nodiscard]] bool has_spent_all(uid_t owner, Clock::time_point now);
  bool was_seen(const FileKey& file, std::int64_t changed);

  std::map<uid_t, std::deque<Waiting>> waiting_;  // none empty
  std::set<FileKey> files_;                       // that wait
  std::map<uid_t, Spent> spent_;
  std::map<FileKey, std::int64_t> seen_;  // when they were changed last
  std::deque<FileKey> seen_order_;
  std::size_t size_ = 0;
  std::optional<uid_t> last_owner_;
};

}  // namespace profd
