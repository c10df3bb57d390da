#include "collectors/door/one_way.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include <gtest/gtest.h>

#include "formats/base/unique_fd.h"

namespace profd::door {
namespace {

constexpr std::size_t kSmallBuffer = 4096;

// user - door's end, and door's end - daemon.
class OneWayTest : public ::testing::Test {
 protected:
  OneWayTest() {
    make_pair(user_, from_);
    make_pair(to_, daemon_);
    const int bytes = kSmallBuffer;
    ::setsockopt(to_.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  }

  static void make_pair(UniqueFd& one, UniqueFd& other) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    one.reset(ends[0]);
    other.reset(ends[1]);
  }

  // All that can be read now.
  static std::string read_all(const UniqueFd& socket) {
    std::string all;
    std::array<char, 1000> bytes;
    for (;;) {
      const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
      if (got <= 0) return all;
      all.append(bytes.data(), static_cast<std::size_t>(got));
    }
  }

  static bool is_at_end(const UniqueFd& socket) {
    char byte = 0;
    return ::recv(socket.get(), &byte, 1, MSG_PEEK) == 0;
  }

  std::size_t send(std::string_view bytes) {
    return static_cast<std::size_t>(
        std::max<ssize_t>(::send(user_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0));
  }

  UniqueFd user_;
  UniqueFd from_;
  UniqueFd to_;
  UniqueFd daemon_;
};

std::string numbered(std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; text.size() < bytes; ++i) text += std::to_string(i) + " ";
  text.resize(bytes);
  return text;
}

TEST_F(OneWayTest, CopiesBytesAndWaitsForMore) {
  OneWay way(from_.get(), to_.get());
  EXPECT_EQ(send("hello"), 5U);
  way.run();
  EXPECT_EQ(read_all(daemon_), "hello");
  EXPECT_TRUE(way.wants_to_read());
  EXPECT_FALSE(way.wants_to_write());
  EXPECT_FALSE(way.has_ended());
}

TEST_F(OneWayTest, AllBytesArriveInOrderThroughASmallBuffer) {
  OneWay way(from_.get(), to_.get());
  const std::string text = numbered(300'000);
  std::string got;
  std::size_t sent = 0;
  bool was_full = false;
  for (int turn = 0; turn < 10'000 && got.size() < text.size(); ++turn) {
    sent += send(std::string_view(text).substr(sent));
    way.run();
    was_full = was_full || way.wants_to_write();
    got += read_all(daemon_);
  }
  EXPECT_EQ(got, text);
  EXPECT_TRUE(was_full);
}

TEST_F(OneWayTest, ReadsNoMoreWhileTheReceiverDoesNotRead) {
  OneWay way(from_.get(), to_.get());
  const std::string text = numbered(1 << 20);
  std::size_t sent = 0;
  for (int turn = 0; turn < 200; ++turn) {
    sent += send(std::string_view(text).substr(sent));
    way.run();
  }
  EXPECT_TRUE(way.wants_to_write());
  EXPECT_FALSE(way.wants_to_read());
  EXPECT_LT(sent, text.size()) << "the sender has no room either";
}

TEST_F(OneWayTest, EndsWithTheSenderWhenItsLastBytesAreSent) {
  OneWay way(from_.get(), to_.get());
  const std::string text = numbered(kSmallBuffer * 8);
  EXPECT_EQ(send(text), text.size());
  ::shutdown(user_.get(), SHUT_WR);
  way.run();
  EXPECT_FALSE(way.has_ended()) << "the receiver has not read";
  std::string got;
  for (int turn = 0; turn < 1000 && !way.has_ended(); ++turn) {
    got += read_all(daemon_);
    way.run();
  }
  got += read_all(daemon_);
  EXPECT_EQ(got, text);
  EXPECT_TRUE(way.has_ended());
  EXPECT_FALSE(way.is_broken());
  EXPECT_FALSE(is_at_end(daemon_)) << "the caller closes";
}

TEST_F(OneWayTest, IsBrokenWhenTheReceiverIsGone) {
  OneWay way(from_.get(), to_.get());
  daemon_.reset();
  EXPECT_EQ(send("hello"), 5U);
  way.run();
  EXPECT_TRUE(way.is_broken());
  EXPECT_TRUE(way.has_ended());
  EXPECT_FALSE(way.wants_to_read());
}

}  // namespace
}  // namespace profd::door
