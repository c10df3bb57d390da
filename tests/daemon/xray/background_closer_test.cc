#include "daemon/xray/background_closer.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace profd {
namespace {

struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ours.reset(ends[0]);
    theirs.reset(ends[1]);
  }
  // Waits until the other end is closed, with a limit.
  [[nodiscard]] bool is_closed() const {
    pollfd end{.fd = theirs.get(), .events = POLLIN, .revents = 0};
    char byte = 0;
    return ::poll(&end, 1, 30'000) == 1 && ::read(theirs.get(), &byte, 1) == 0;
  }
  UniqueFd ours;
  UniqueFd theirs;
};

TEST(BackgroundCloser, ClosesDescriptors) {
  BackgroundCloser closer;
  Pair first;
  Pair second;
  closer.close(std::move(first.ours));
  EXPECT_TRUE(first.is_closed());
  closer.close(std::move(second.ours));
  EXPECT_TRUE(second.is_closed());
}

TEST(BackgroundCloser, ClosesTheDescriptorsThatWaitAtItsEnd) {
  Pair pairs[50];
  {
    BackgroundCloser closer;
    for (Pair& pair : pairs) closer.close(std::move(pair.ours));
  }
  for (const Pair& pair : pairs) EXPECT_TRUE(pair.is_closed());
}

// A lingering TCP socket whose bytes are not read: its last close takes the linger time.
TEST(BackgroundCloser, ASlowCloseDoesNotBlockTheCaller) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  UniqueFd lingering(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(lingering.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  const linger long_one{.l_onoff = 1, .l_linger = 60};
  ::setsockopt(lingering.get(), SOL_SOCKET, SO_LINGER, &long_one, sizeof long_one);
  ::fcntl(lingering.get(), F_SETFL, O_NONBLOCK);
  const std::string bytes(1 << 16, 'x');
  while (::send(lingering.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
  }
  ::fcntl(lingering.get(), F_SETFL, 0);
  const auto begin = std::chrono::steady_clock::now();
  {
    BackgroundCloser closer;
    closer.close(std::move(lingering));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace profd
