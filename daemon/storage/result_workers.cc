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
  waiting_[user].push_back(ticket);
  while (is_taken_ || next() != ticket) {
    co_await changed_.wait();
  }
  const auto queue = waiting_.find(user);
  queue->second.pop_front();
  if (queue->second.empty()) waiting_.erase(queue);
  last_user_ = user;
  is_taken_ = true;
}

void UserTurns::end() {
  is_taken_ = false;
  changed_.notify_all();
}

}  // namespace profd
