#include "daemon/xray/queue.h"

#include <algorithm>

namespace profd {
namespace {

constexpr std::size_t kMaxSeen = 1024;
constexpr std::uint64_t kSectorBytes = 512;  // of st_blocks

// A file with holes costs its owner nothing, and the reader all its bytes. One that its file system
// compresses has fewer blocks as well, but not by that much.
bool is_sparse(const struct stat& status) {
  constexpr std::uint64_t kSmall = std::uint64_t{16} << 20;
  constexpr std::uint64_t kMostCompressed = 16;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  return size > kSmall &&
         static_cast<std::uint64_t>(status.st_blocks) * kSectorBytes < size / kMostCompressed;
}

Result<void> check(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::kMalformed, "it is no regular file");
  if (static_cast<std::uint64_t>(status.st_size) > XrayQueue::kMaxLogBytes) {
    return fail(ErrorCode::kTooLarge, "over 4 GiB");
  }
  if (is_sparse(status)) return fail(ErrorCode::kMalformed, "it is made of holes");
  return {};
}

}  // namespace

std::int64_t changed_ns(const struct stat& status) {
  return std::int64_t{status.st_ctim.tv_sec} * 1'000'000'000 + status.st_ctim.tv_nsec;
}

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

bool XrayQueue::has_spent_all(uid_t owner) const {
  const auto found = spent_.find(owner);
  return owner != 0 && found != spent_.end() && found->second.time >= kMaxReading;
}

std::size_t XrayQueue::places_of(uid_t owner) const {
  const std::size_t most = owner == 0 ? kMaxOfRoot : kMaxOfOwner;
  const auto found = waiting_.find(owner);
  if (found != waiting_.end()) return most - found->second.size();
  return owner == 0 || waiting_.size() < kMaxOwners ? most : 0;
}

// By its name alone: a descriptor each would be dear.
Result<bool> XrayQueue::put_off(const Log& log) {
  auto found = put_off_.find(log.owner);
  if (found == put_off_.end()) {
    if (log.owner != 0 && put_off_.size() >= kMaxOwners) {
      return fail(ErrorCode::kTooLarge, "those of 64 owners are waiting");
    }
    found = put_off_.try_emplace(log.owner).first;
  }
  std::deque<std::string>& names = found->second;
  if (std::ranges::find(names, log.name) != names.end()) return false;
  if (names.size() >= kMaxPutOff) {
    return fail(ErrorCode::kTooLarge, "too many of its owner's are waiting");
  }
  names.push_back(log.name);
  return false;
}

Result<bool> XrayQueue::add(Log log, const struct stat& status) {
  const FileKey file{status.st_dev, status.st_ino};
  if (files_.contains(file)) return false;
  if (places_of(log.owner) == 0) return put_off(log);
  if (was_seen(file, changed_ns(status))) return false;
  if (auto good = check(status); !good) return good.error();
  const uid_t owner = log.owner;
  waiting_[owner].push_back({.log = std::move(log), .file = file});
  files_.insert(file);
  return true;
}

std::optional<XrayQueue::Log> XrayQueue::next(Clock::time_point now,
                                              const std::function<bool(uid_t)>& has_room) {
  std::erase_if(spent_, [&](const auto& one) { return now - one.second.since >= kReadingWindow; });
  auto turn = last_owner_ ? waiting_.upper_bound(*last_owner_) : waiting_.begin();
  for (std::size_t asked = 0; asked < waiting_.size(); ++asked, ++turn) {
    if (turn == waiting_.end()) turn = waiting_.begin();
    if (has_spent_all(turn->first) || !has_room(turn->first)) continue;
    last_owner_ = turn->first;
    Waiting first = std::move(turn->second.front());
    turn->second.pop_front();
    if (turn->second.empty()) waiting_.erase(turn);
    files_.erase(first.file);
    return std::move(first.log);
  }
  return std::nullopt;
}

std::vector<std::string> XrayQueue::take_put_off() {
  std::vector<std::string> taken;
  for (auto& [owner, names] : put_off_) {
    for (std::size_t places = places_of(owner); places > 0 && !names.empty(); --places) {
      taken.push_back(std::move(names.front()));
      names.pop_front();
    }
  }
  std::erase_if(put_off_, [](const auto& one) { return one.second.empty(); });
  return taken;
}

void XrayQueue::spent(uid_t owner, std::chrono::nanoseconds time, Clock::time_point now) {
  Spent& spent = spent_.try_emplace(owner, Spent{.since = now}).first->second;
  spent.time += time;
}

void XrayQueue::clear() {
  waiting_.clear();
  put_off_.clear();
  files_.clear();
}

}  // namespace profd
