// The traces that wait to be read, in a fair order.
//
// Every user may leave any number of traces, and each may take a minute to read. So each owner has
// a few places and a limit of reading time, the owners take turns, and a file waits once however
// often it is closed. A trace without a place is deferred: its name is kept, up to a limit, and it
// is opened again later. So one owner's traces cost another one no trace, and at most the wait for
// one reading. Not thread-safe.

#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class XrayQueue {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kMaxOwners = 64;
  static constexpr std::size_t kMaxOfOwner = 8;
  static constexpr std::size_t kMaxOfRoot = 64;
  static constexpr std::size_t kMaxDeferred = 256;  // of one owner, for each of kMaxOwners
  static constexpr std::uint64_t kMaxTraceBytes = std::uint64_t{4} << 30;
  // Of one owner's traces, also those that fail. root has no limit.
  static constexpr std::chrono::seconds kMaxReading{120};
  static constexpr std::chrono::seconds kReadingWindow{600};

  struct Trace {
    std::string name;
    std::shared_ptr<const UniqueFd> file;
    uid_t owner = 0;  // of the file
    uid_t user = 0;   // the owner of that uid, see UidOwners
  };

  // `status` is that of `trace.file`. False: the file waits already, has not changed since it was
  // read, or is deferred. An error says why it is refused.
  Result<bool> add(Trace trace, const struct stat& status);

  // The first trace of the owner whose turn it is, among those with reading time left and room for
  // a result. None: no owner has both.
  std::optional<Trace> next(Clock::time_point now, const std::function<bool(uid_t)>& has_room);

  // Defers a trace without a file, whatever places there are. An error says why it is refused.
  Result<void> defer(const Trace& trace);

  // Returns the names of deferred traces for which there are places now, but no more than `most`;
  // the caller opens and adds them again.
  std::vector<std::string> take_deferred(std::size_t most = kMaxDeferred);

  void count_reading(uid_t owner, std::chrono::nanoseconds time, Clock::time_point now);

  [[nodiscard]] bool empty() const { return waiting_.empty() && deferred_.empty(); }
  void clear();

 private:
  using FileKey = std::pair<dev_t, ino_t>;
  struct Waiting {
    Trace trace;
    FileKey file;
  };
  struct ReadingTime {
    Clock::time_point since;
    std::chrono::nanoseconds time{};
  };

  [[nodiscard]] std::size_t free_places_of(uid_t owner) const;
  [[nodiscard]] bool has_no_time_left(uid_t owner) const;
  bool was_seen(const FileKey& file, std::int64_t changed);

  std::map<uid_t, std::deque<Waiting>> waiting_;       // no deque is empty
  std::map<uid_t, std::deque<std::string>> deferred_;  // likewise
  std::set<FileKey> files_;                            // in waiting_
  std::map<uid_t, ReadingTime> reading_times_;
  std::map<FileKey, std::int64_t> seen_;  // the ctime when the file was added
  std::deque<FileKey> seen_order_;
  std::optional<uid_t> last_owner_;
};

}  // namespace profd
