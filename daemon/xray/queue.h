// The traces that wait to be read, fairly between those who own them.
//
// Anyone may leave as many as he likes, and each may take a minute to read. So each owner has a few
// places and a time to be read in, the owners take turns, and a file waits once however often it is
// closed. Those that find no place are put off by name, as many as that is bounded for, and tried
// again. What one owner does costs another no trace, and at most one reading's wait. Not
// thread-safe.

#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// Nanoseconds of the last change of a file. Nobody can set it but by changing the file.
[[nodiscard]] std::int64_t changed_ns(const struct stat& status);

class XrayQueue {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kMaxOwners = 64;
  static constexpr std::size_t kMaxOfOwner = 8;
  static constexpr std::size_t kMaxOfRoot = 64;
  static constexpr std::size_t kMaxPutOff = 256;  // of one owner, for each of kMaxOwners
  static constexpr std::uint64_t kMaxLogBytes = std::uint64_t{4} << 30;
  // Of one owner's readings, failed ones too; root's are not counted.
  static constexpr std::chrono::seconds kMaxReading{120};
  static constexpr std::chrono::seconds kReadingWindow{600};

  struct Log {
    std::string name;
    UniqueFd file;
    uid_t owner = 0;
  };

  // `status` is of `log.file`. False: the same file waits already, was seen as it is, or is put
  // off, for want of a place. An error says why it is refused.
  Result<bool> add(Log log, const struct stat& status);

  // The first one of the owner whose turn it is, of those who have time left and room for a result.
  // None: all that wait do so for that.
  std::optional<Log> next(Clock::time_point now, const std::function<bool(uid_t)>& has_room);

  // The names of what was put off, as many as there are places for by now. They are to be opened
  // and added anew.
  std::vector<std::string> take_put_off();

  void spent(uid_t owner, std::chrono::nanoseconds time, Clock::time_point now);

  // Nothing waits, and nothing is put off.
  [[nodiscard]] bool empty() const { return waiting_.empty() && put_off_.empty(); }
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

  [[nodiscard]] std::size_t places_of(uid_t owner) const;  // that are free
  [[nodiscard]] Result<bool> put_off(const Log& log);
  [[nodiscard]] bool has_spent_all(uid_t owner) const;
  bool was_seen(const FileKey& file, std::int64_t changed);

  std::map<uid_t, std::deque<Waiting>> waiting_;      // none empty
  std::map<uid_t, std::deque<std::string>> put_off_;  // likewise
  std::set<FileKey> files_;                           // that wait
  std::map<uid_t, Spent> spent_;
  std::map<FileKey, std::int64_t> seen_;  // when they were changed last
  std::deque<FileKey> seen_order_;
  std::optional<uid_t> last_owner_;
};

}  // namespace profd
