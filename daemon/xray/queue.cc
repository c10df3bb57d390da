#include "daemon/xray/queue.h"

#include <algorithm>

#include "collectors/host/clock.h"

namespace profd {
namespace {

constexpr std::size_t kMaxSeen = 1024;
constexpr std::uint64_t kSectorBytes = 512;  // of st_blocks

// A file with holes costs its owner no disk, but the reader all its bytes. A file system that
// compresses also gives it fewer blocks, but not that few.
bool is_sparse(const struct stat& status) {
  constexpr std::uint64_t kSmall = std::uint64_t{16} << 20;
  constexpr std::uint64_t kMostCompressed = 16;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  return size > kSmall &&
         static_cast<std::uint64_t>(status.st_blocks) * kSectorBytes < size / kMostCompressed;
}

Result<void> check(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::kMalformed, "not a regular file");
  if (static_cast<std::uint64_t>(status.st_size) > XrayQueue::kMaxTraceBytes) {
    return fail(ErrorCode::kTooLarge, "over 4 GiB");
  }
  if (is_sparse(status)) return fail(ErrorCode::kMalformed, "a sparse file");
  return {};
}

}  // namespace

bool XrayQueue::was_seen(const FileKey& file, std::int64_t changed) {
  const auto [seen, is_new] = seen_.try_emplace(file, changed);
  if (!is_new) return std::exchange(seen->second, changed) == changed;
  seen_order_.push_back(file);
  if (seen_order_.size() > kMaxSeen) {
    seen_.erase(seen_order_.front());
    seen_order_.pop_front();
  }
  return false;
}

bool XrayQueue::has_no_time_left(uid_t owner) const {
  const auto found = reading_times_.find(owner);
  return owner != 0 && found != reading_times_.end() && found->second.time >= kMaxReading;
}

std::size_t XrayQueue::free_places_of(uid_t owner) const {
  const std::size_t most = owner == 0 ? kMaxOfRoot : kMaxOfOwner;
  const auto found = waiting_.find(owner);
  if (found != waiting_.end()) return most - found->second.size();
  return owner == 0 || waiting_.size() < kMaxOwners ? most : 0;
}

// Keeps the name alone, since descriptors are few.
Result<void> XrayQueue::defer(const Trace& trace) {
  auto found = deferred_.find(trace.user);
  if (found == deferred_.end()) {
    if (trace.user != 0 && deferred_.size() >= kMaxOwners) {
      return fail(ErrorCode::kTooLarge, "traces of 64 owners wait already");
    }
    found = deferred_.try_emplace(trace.user).first;
  }
  std::deque<std::string>& names = found->second;
  if (std::ranges::find(names, trace.name) != names.end()) return {};
  if (names.size() >= kMaxDeferred) {
    return fail(ErrorCode::kTooLarge, "too many traces of its owner wait already");
  }
  names.push_back(trace.name);
  return {};
}

Result<bool> XrayQueue::add(Trace trace, const struct stat& status) {
  const FileKey file{status.st_dev, status.st_ino};
  if (files_.contains(file)) return false;
  if (free_places_of(trace.user) == 0) {
    if (auto deferred = defer(trace); !deferred) return deferred.error();
    return false;
  }
  if (was_seen(file, nanoseconds_of(status.st_ctim))) return false;
  if (auto good = check(status); !good) return good.error();
  const uid_t owner = trace.user;
  waiting_[owner].push_back({.trace = std::move(trace), .file = file});
  files_.insert(file);
  return true;
}

std::optional<XrayQueue::Trace> XrayQueue::next(Clock::time_point now,
                                                const std::function<bool(uid_t)>& has_room) {
  std::erase_if(reading_times_,
                [&](const auto& one) { return now - one.second.since >= kReadingWindow; });
  auto turn = last_owner_ ? waiting_.upper_bound(*last_owner_) : waiting_.begin();
  for (std::size_t asked = 0; asked < waiting_.size(); ++asked, ++turn) {
    if (turn == waiting_.end()) turn = waiting_.begin();
    if (has_no_time_left(turn->first) || !has_room(turn->first)) continue;
    last_owner_ = turn->first;
    Waiting first = std::move(turn->second.front());
    turn->second.pop_front();
    if (turn->second.empty()) waiting_.erase(turn);
    files_.erase(first.file);
    return std::move(first.trace);
  }
  return std::nullopt;
}

std::vector<std::string> XrayQueue::take_deferred(std::size_t most) {
  std::vector<std::string> taken;
  for (auto& [owner, names] : deferred_) {
    const std::size_t left = most - taken.size();
    for (std::size_t places = std::min(free_places_of(owner), left); places > 0 && !names.empty();
         --places) {
      taken.push_back(std::move(names.front()));
      names.pop_front();
    }
  }
  std::erase_if(deferred_, [](const auto& one) { return one.second.empty(); });
  return taken;
}

void XrayQueue::count_reading(uid_t owner, std::chrono::nanoseconds time, Clock::time_point now) {
  reading_times_.try_emplace(owner, ReadingTime{.since = now}).first->second.time += time;
}

void XrayQueue::clear() {
  waiting_.clear();
  deferred_.clear();
  files_.clear();
}

}  // namespace profd
