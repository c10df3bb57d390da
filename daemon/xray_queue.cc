#include "daemon/xray_queue.h"

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

bool XrayQueue::has_spent_all(uid_t owner, Clock::time_point now) {
  std::erase_if(spent_, [&](const auto& one) { return now - one.second.since >= kReadingWindow; });
  const auto found = spent_.find(owner);
  return owner != 0 && found != spent_.end() && found->second.time >= kMaxReading;
}

Result<bool> XrayQueue::add(Log log, const struct stat& status, Clock::time_point now) {
  const FileKey file{status.st_dev, status.st_ino};
  if (files_.contains(file) || was_seen(file, changed_ns(status))) return false;
  if (auto good = check(status); !good) return good.error();
  if (has_spent_all(log.owner, now)) {
    return fail(ErrorCode::kTooLarge, "reading its owner's took 2 of the last 10 minutes");
  }
  const auto owners = waiting_.find(log.owner);
  const std::size_t of_owner = owners == waiting_.end() ? 0 : owners->second.size();
  if (of_owner >= (log.owner == 0 ? kMaxOfRoot : kMaxOfOwner)) {
    return fail(ErrorCode::kTooLarge, "too many of its owner's are waiting");
  }
  if (of_owner == 0 && log.owner != 0 && waiting_.size() >= kMaxOwners) {
    return fail(ErrorCode::kTooLarge, "those of 64 owners are waiting");
  }
  const uid_t owner = log.owner;
  waiting_[owner].push_back({.log = std::move(log), .file = file});
  files_.insert(file);
  ++size_;
  return true;
}

std::optional<XrayQueue::Log> XrayQueue::next() {
  if (empty()) return std::nullopt;
  auto turn = last_owner_ ? waiting_.upper_bound(*last_owner_) : waiting_.begin();
  if (turn == waiting_.end()) turn = waiting_.begin();
  last_owner_ = turn->first;
  Waiting first = std::move(turn->second.front());
  turn->second.pop_front();
  if (turn->second.empty()) waiting_.erase(turn);
  files_.erase(first.file);
  --size_;
  return std::move(first.log);
}

void XrayQueue::spent(uid_t owner, std::chrono::nanoseconds time, Clock::time_point now) {
  Spent& spent = spent_.try_emplace(owner, Spent{.since = now}).first->second;
  spent.time += time;
}

void XrayQueue::clear() {
  waiting_.clear();
  files_.clear();
  size_ = 0;
}

}  // namespace profd
