#include "daemon/storage/result_workers.h"

namespace profd {

// The first ticket of the user after the one who had the last turn.
std::uint64_t UserTurns::next() const {
  auto user = waiting_.upper_bound(last_user_);
  if (user == waiting_.end()) user = waiting_.begin();
  return user->second.front();
}

boost::asio::awaitable<void> UserTurns::begin(uid_t user) {
  const std::uint64_t ticket = ++last_ticket_;
  try {
    waiting_[user].push_back(ticket);
    while (active_.size() == places_ || next() != ticket) {
      co_await changed_.wait();
    }
    active_.insert(user);
  } catch (...) {
    stop_waiting(user, ticket);
    throw;
  }
  last_user_ = user;
  stop_waiting(user, ticket);
}

void UserTurns::end(uid_t user) {
  active_.erase(active_.find(user));
  changed_.notify_all();
}

// Another one is the next.
void UserTurns::stop_waiting(uid_t user, std::uint64_t ticket) {
  const auto queue = waiting_.find(user);
  if (queue == waiting_.end()) return;
  std::erase(queue->second, ticket);
  if (queue->second.empty()) waiting_.erase(queue);
  if (active_.size() < places_) changed_.notify_all();
}

boost::asio::awaitable<void> ResultWorkers::trim_names() {
  if (std::exchange(is_trimming_, true)) co_return;
  co_await privileged_.trim_names();
  co_await users_.trim_names();
  is_trimming_ = false;
}

}  // namespace profd
