// The door of app.sock and its closer, driven as the daemon does, with this process as the app.

#include "collectors/door/app_door.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "collectors/door/app_door_child.h"
#include "collectors/sandbox/packets.h"
#include "tests/lingering_socket.h"

namespace profd::door {
namespace {

using std::chrono_literals::operator""ms;

constexpr int kHangMs = 30'000;

bool wait_readable(int fd, int limit_ms = kHangMs) {
  pollfd state{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&state, 1, limit_ms) == 1;
}

// Whether the other end is closed, after at most the hang limit.
bool ends(int fd) {
  char byte = 0;
  return wait_readable(fd) && ::read(fd, &byte, 1) == 0;
}

struct Ends {
  explicit Ends(int type) {
    int both[2];
    EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, both), 0);
    ours.reset(both[0]);
    theirs.reset(both[1]);
  }
  UniqueFd ours;
  UniqueFd theirs;
};

template <class Child>
void end(std::optional<Child>& child) {
  if (!child) return;
  ::kill(child->process(), SIGKILL);
  ::waitpid(child->process(), nullptr, 0);
  child.reset();
}

class AppDoorTest : public testing::Test {
 protected:
  AppDoorTest() {
    address_.sun_family = AF_UNIX;
    const std::string name = "profd-app-door-test-" + std::to_string(::getpid());
    std::memcpy(address_.sun_path + 1, name.data(), name.size());  // abstract
    listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::bind(listener_.get(), address(), sizeof address_), 0);
    EXPECT_EQ(::listen(listener_.get(), 64), 0);
    door_.emplace(AppDoorChild::start(listener_.get()).value());
  }
  ~AppDoorTest() override {
    end(door_);
    end(closer_);
  }

  [[nodiscard]] const sockaddr* address() const {
    return reinterpret_cast<const sockaddr*>(&address_);
  }

  UniqueFd connect() {
    UniqueFd app(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(app.get(), address(), sizeof address_), 0);
    return app;
  }

  // The next change, or the error that ends the door.
  Result<AppPacket> next_change() {
    for (;;) {
      if (!wait_readable(door_->descriptor())) return fail(ErrorCode::kTimeout, "no change");
      auto change = door_->next_change();
      if (!change) return change.error();
      if (*change) return **change;
    }
  }

  void start_closer() {
    end(closer_);
    Ends link(SOCK_SEQPACKET);
    closer_.emplace(CloserChild::start(link.theirs.get()).value());
    EXPECT_TRUE(door_->send({.order = AppOrder::kCloser}, link.ours.get()));
  }

  // The app's connection as a follower gets it; not valid if none comes.
  UniqueFd passed(std::uint64_t app) {
    Ends follower(SOCK_SEQPACKET);
    EXPECT_TRUE(door_->send({.order = AppOrder::kPass, .app = app}, follower.ours.get()));
    follower.ours.reset();
    PassedPacket packet;
    if (!wait_readable(follower.theirs.get())) return {};
    auto received =
        sandbox::receive_packet(follower.theirs.get(), sandbox::buffer_of(packet)).value();
    if (received.descriptors.size() != 1) return {};
    return std::move(received.descriptors[0]);
  }

  sockaddr_un address_{};
  UniqueFd listener_;
  std::optional<AppDoorChild> door_;
  std::optional<CloserChild> closer_;
};

TEST_F(AppDoorTest, AnAppIsReportedWithItsCredentialsAndWhenItEnds) {
  UniqueFd app = connect();
  const auto came = next_change();
  ASSERT_TRUE(came);
  EXPECT_EQ(came->change, AppChange::kConnected);
  EXPECT_EQ(came->pid, ::getpid());
  EXPECT_EQ(came->uid, ::geteuid());
  EXPECT_EQ(came->gid, ::getegid());
  app.reset();
  const auto went = next_change();
  ASSERT_TRUE(went);
  EXPECT_EQ(went->change, AppChange::kDisconnected);
  EXPECT_EQ(went->app, came->app);
}

TEST_F(AppDoorTest, TheFollowerReceivesTheConnectionWithWhatTheAppSent) {
  const UniqueFd app = connect();
  const UniqueFd sent(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(test::send_descriptor(app.get(), sent.get()));
  const auto came = next_change();
  ASSERT_TRUE(came);
  const UniqueFd connection = passed(came->app);
  ASSERT_TRUE(connection.valid());
  char byte = 0;
  const auto received = sandbox::receive_packet(connection.get(), {&byte, 1}).value();
  EXPECT_EQ(byte, 'G');
  EXPECT_EQ(received.descriptors.size(), 1U);
  ASSERT_TRUE(passed(came->app).valid()) << "for another session";
}

TEST_F(AppDoorTest, ADisconnectedAppSeesTheEndAndIsGone) {
  const UniqueFd app = connect();
  const auto came = next_change();
  ASSERT_TRUE(came);
  const UniqueFd of_follower = passed(came->app);
  EXPECT_TRUE(door_->send({.order = AppOrder::kDisconnect, .app = came->app}, -1));
  EXPECT_TRUE(ends(app.get())) << "although a follower has the connection";
  EXPECT_FALSE(passed(came->app).valid());
  EXPECT_TRUE(door_->send({.order = AppOrder::kDisconnect, .app = came->app}, -1));
  const UniqueFd next = connect();
  const auto other = next_change();
  ASSERT_TRUE(other) << "and the door goes on";
  EXPECT_EQ(other->change, AppChange::kConnected);
  EXPECT_NE(other->app, came->app);
}

TEST_F(AppDoorTest, AMalformedOrderEndsTheDoor) {
  const AppOrderPacket unknown{.order = static_cast<AppOrder>(9)};
  const AppOrderPacket second_start{.order = AppOrder::kStart};
  const AppOrderPacket pass{.order = AppOrder::kPass};
  const AppOrderPacket closer{.order = AppOrder::kCloser};
  for (const std::string_view order :
       {std::string_view("short"), sandbox::bytes_of(unknown), sandbox::bytes_of(second_start),
        sandbox::bytes_of(pass), sandbox::bytes_of(closer)}) {
    ASSERT_TRUE(sandbox::send_packet(door_->descriptor(), order));
    const auto change = next_change();
    ASSERT_FALSE(change);
    EXPECT_EQ(change.error().code, ErrorCode::kUnavailable);
    end(door_);
    door_.emplace(AppDoorChild::start(listener_.get()).value());
  }
}

TEST_F(AppDoorTest, WhatAnAppSentIsClosedByTheCloserAlone) {
  Ends sent(SOCK_STREAM);
  UniqueFd app = connect();
  ASSERT_TRUE(test::send_descriptor(app.get(), sent.theirs.get()));
  sent.theirs.reset();
  app.reset();
  const UniqueFd later = connect();
  ASSERT_TRUE(wait_readable(door_->descriptor()));
  EXPECT_FALSE(wait_readable(sent.ours.get(), 300)) << "there is no closer yet";
  start_closer();
  EXPECT_TRUE(ends(sent.ours.get()));
}

TEST_F(AppDoorTest, ACloserThatHangsDelaysNoAppAndAnotherOneClosesTheRest) {
  start_closer();
  std::vector<test::LingeringSocket> attacks;
  for (int i = 0; i < 40; ++i) {
    UniqueFd app = connect();
    if (i % 10 != 0) continue;
    attacks.push_back(test::make_lingering(60));
    ASSERT_TRUE(test::send_descriptor(app.get(), attacks.back().lingers.get()));
    attacks.back().lingers.reset();
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!closer_->stands_still(100ms) && std::chrono::steady_clock::now() < limit) {
    ::usleep(10'000);
  }
  EXPECT_TRUE(closer_->stands_still(100ms));
  Ends sent(SOCK_STREAM);
  UniqueFd honest = connect();
  ASSERT_TRUE(test::send_descriptor(honest.get(), sent.theirs.get()));
  sent.theirs.reset();
  AppPacket last;
  while (wait_readable(door_->descriptor(), 300)) {
    const auto change = door_->next_change();
    ASSERT_TRUE(change);
    if (*change) last = **change;
  }
  EXPECT_EQ(last.change, AppChange::kConnected);
  EXPECT_TRUE(passed(last.app).valid());
  EXPECT_FALSE(door_->stands_still(100ms));
  honest.reset();
  // Each closer is killed with all that it had. The next one may hang in what came later.
  for (int closers = 1; closers < 10 && !wait_readable(sent.ours.get(), 1000); ++closers) {
    if (closer_->stands_still(100ms)) start_closer();
  }
  EXPECT_TRUE(ends(sent.ours.get()));
}

// The daemon receives changes only when the door accepts no more, since it has no room for them.
TEST_F(AppDoorTest, ADoorThatCannotReportAcceptsNobodyAndGoesOnWhenItCan) {
  start_closer();
  std::vector<UniqueFd> sent;
  int full = 0;
  for (int i = 0; i < 2000; ++i) {
    UniqueFd app(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    while (::connect(app.get(), address(), sizeof address_) != 0) {
      ASSERT_EQ(errno, EAGAIN);
      ++full;
      while (wait_readable(door_->descriptor(), 10)) ASSERT_TRUE(door_->next_change());
    }
    if (i % 100 != 0) continue;
    Ends pair(SOCK_STREAM);
    ASSERT_TRUE(test::send_descriptor(app.get(), pair.theirs.get()));
    sent.push_back(std::move(pair.ours));
  }
  EXPECT_GT(full, 0);
  while (wait_readable(door_->descriptor(), 300)) ASSERT_TRUE(door_->next_change());
  for (const UniqueFd& one : sent) EXPECT_TRUE(ends(one.get()));
}

}  // namespace
}  // namespace profd::door
