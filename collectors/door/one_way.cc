#include "collectors/door/one_way.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace profd::door {
namespace {

// So that one client can't keep the others waiting.
constexpr int kRounds = 4;

bool would_block(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

bool OneWay::send_pending() {
  const ssize_t sent = ::send(to_, pending_.data(), pending_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && would_block(errno)) return false;
  if (sent < 0) {
    is_broken_ = true;
    at_end_ = true;
    std::string().swap(pending_);
    return false;
  }
  pending_.erase(0, static_cast<std::size_t>(sent));
  if (!pending_.empty()) return false;
  std::string().swap(pending_);  // an idle connection takes no memory
  return true;
}

void OneWay::run() {
  std::array<char, kMaxPendingBytes> bytes;
  for (int round = 0; round < kRounds; ++round) {
    if (!pending_.empty() && !send_pending()) return;
    if (at_end_) return;
    const ssize_t got = ::recv(from_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && would_block(errno)) return;
    if (got <= 0) {
      at_end_ = true;
      return;
    }
    pending_.assign(bytes.data(), static_cast<std::size_t>(got));
  }
  if (!pending_.empty()) (void)send_pending();
}

}  // namespace profd::door
