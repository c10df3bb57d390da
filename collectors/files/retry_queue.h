// What failed for a reason that may pass, such as a time-out on a busy host, with the times of the
// next tries (backoff.h).
//
// Users other than root together have half of the entries, and one user an eighth. After a failure
// the same user's entries wait for the next call of try_due(), so that files that make tries slow
// do not delay those of other users. Not thread safe: one thread owns it.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "collectors/files/backoff.h"

namespace profd {

template <class Key, class Value>
class RetryQueue {
 public:
  using TimePoint = Backoff::TimePoint;

  static constexpr std::size_t kMaxEntries = 1024;
  static constexpr std::size_t kMaxOfUsers = kMaxEntries / 2;
  static constexpr std::size_t kMaxOfUser = kMaxEntries / 8;
  // For one call of try_due(), which ends with the try that exceeds it.
  static constexpr std::chrono::milliseconds kMaxTime{5};

  explicit RetryQueue(std::chrono::nanoseconds max_time = kMaxTime) : max_time_(max_time) {}

  // Does nothing for a known key. Without room, there is no further try. `uid` is the user who can
  // make a try slow.
  void add(const Key& key, std::uint32_t uid, Value value, TimePoint now) {
    if (entries_.contains(key) || !has_room_for(uid)) return;
    const auto added =
        entries_.emplace(key, Entry{.value = std::move(value), .uid = uid, .backoff = Backoff(now)})
            .first;
    ++entries_of_[uid];
    next_due_ = std::min(next_due_, added->second.backoff.due());
  }

  void remove(const Key& key) {
    if (const auto known = entries_.find(key); known != entries_.end()) erase(known);
  }

  // Calls `attempt` with the value of each entry that is due, those with the fewest tries first. It
  // returns whether the entry is done, and may add and remove entries.
  template <class Attempt>
  void try_due(TimePoint now, Attempt attempt) {
    if (now < next_due_) return;
    const TimePoint begin = std::chrono::steady_clock::now();
    std::set<std::uint32_t> failed;
    for (const Key& key : due_keys(now)) {
      if (std::chrono::steady_clock::now() - begin >= max_time_) break;
      const auto known = entries_.find(key);
      if (known == entries_.end() || failed.contains(known->second.uid)) continue;
      const std::uint32_t uid = known->second.uid;
      known->second.backoff.delay(now);
      const Value value = known->second.value;
      if (attempt(value)) {
        remove(key);
      } else if (uid != kRoot) {
        failed.insert(uid);
      }
    }
    set_next_due(now);
  }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Value value;
    std::uint32_t uid = 0;
    Backoff backoff;
  };
  using Entries = std::map<Key, Entry>;

  static constexpr std::uint32_t kRoot = 0;
  // Entries that are due but were not tried.
  static constexpr std::chrono::seconds kBetweenCalls{1};

  [[nodiscard]] std::size_t count_of(std::uint32_t uid) const {
    const auto known = entries_of_.find(uid);
    return known == entries_of_.end() ? 0 : known->second;
  }

  [[nodiscard]] bool has_room_for(std::uint32_t uid) const {
    if (entries_.size() >= kMaxEntries) return false;
    if (uid == kRoot) return true;
    return count_of(uid) < kMaxOfUser && entries_.size() - count_of(kRoot) < kMaxOfUsers;
  }

  void erase(typename Entries::iterator entry) {
    const auto count = entries_of_.find(entry->second.uid);
    if (--count->second == 0) entries_of_.erase(count);
    entries_.erase(entry);
  }

  // Erases the entries whose tries have ended.
  std::vector<Key> due_keys(TimePoint now) {
    std::vector<std::tuple<unsigned, TimePoint, Key>> due;
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const auto current = entry++;
      const Backoff& backoff = current->second.backoff;
      if (!backoff.is_due(now)) continue;
      if (backoff.has_ended()) {
        erase(current);
      } else {
        due.emplace_back(backoff.tries(), backoff.due(), current->first);
      }
    }
    std::ranges::sort(due);
    std::vector<Key> keys;
    keys.reserve(due.size());
    for (auto& entry : due) keys.push_back(std::get<Key>(std::move(entry)));
    return keys;
  }

  void set_next_due(TimePoint now) {
    next_due_ = TimePoint::max();
    for (const auto& [key, entry] : entries_) {
      next_due_ = std::min(next_due_, entry.backoff.due());
    }
    if (next_due_ <= now) next_due_ = now + kBetweenCalls;
  }

  std::chrono::nanoseconds max_time_;
  Entries entries_;
  std::map<std::uint32_t, std::size_t> entries_of_;  // by uid
  TimePoint next_due_ = TimePoint::max();
};

}  // namespace profd
