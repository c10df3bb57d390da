// What unprivileged users send to the public control socket does not delay root's answers on the
// admin socket: descriptors whose last close takes as long as their sender likes.
// And what the door has for its clients when profd ends still arrives.

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "formats/base/unique_fd.h"
#include "tests/children.h"
#include "tests/daemon/control/raw_client.h"
#include "tests/e2e/harness.h"
#include "tests/lingering_socket.h"

namespace profd::e2e {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""s;
using test::LingeringSocket;
using test::make_lingering;
using test::send_descriptor;

class DoorTest : public ::testing::Test {
 protected:
  // Asks on a connection of its own. Returns how long the answer took.
  std::chrono::milliseconds ask_as_root() {
    const auto began = Clock::now();
    RawClient root(daemon_.admin_socket());
    EXPECT_EQ(root.ask("GET", "/v1/status").status, 200);
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began);
  }

  // The errno of a user's connect() to the admin socket.
  [[nodiscard]] int connect_as_somebody() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(daemon_.admin_socket().native(), address.sun_path);
    const UniqueFd user(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    int error = 0;
    std::thread([&] {
      const bool became = ::syscall(SYS_setgroups, 0, nullptr) == 0 &&
                          ::syscall(SYS_setresgid, kSomebody, kSomebody, kSomebody) == 0 &&
                          ::syscall(SYS_setresuid, kSomebody, kSomebody, kSomebody) == 0;
      const bool is_connected =
          became &&
          ::connect(user.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
      error = is_connected ? 0 : errno;
    }).join();
    return error;
  }

  [[nodiscard]] std::size_t descriptors_of_daemon() {
    return descriptors_of(daemon_.process().pid());
  }
  [[nodiscard]] static std::size_t descriptors_of(pid_t process) {
    const std::string directory = "/proc/" + std::to_string(process) + "/fd";
    const auto entries = std::filesystem::directory_iterator(directory);
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
  }

  // How many clients of this user the door closed, since they did not read.
  [[nodiscard]] static std::uint64_t unread_of(uid_t uid, const StatusInfo& status) {
    for (const StatusInfo::User& user : status.users) {
      const auto unread = user.refused.find("connections.unread");
      if (user.uid == uid && unread != user.refused.end()) return unread->second;
    }
    return 0;
  }

  Daemon daemon_;
};

TEST_F(DoorTest, TheAdminSocketIsForRootAndTheGroupAlone) {
  struct stat info {};
  ASSERT_EQ(::stat(daemon_.admin_socket().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode, S_IFSOCK | 0660U);
  RawClient root(daemon_.admin_socket());
  EXPECT_EQ(root.ask("GET", "/v1/config").status, 200);
  EXPECT_EQ(connect_as_somebody(), EACCES);
}

TEST_F(DoorTest, ClientsBehindTheDoorAreJudgedByTheirOwnCredentials) {
  RawClient root(daemon_.socket());
  EXPECT_EQ(root.ask("GET", "/v1/config").status, 200);
  RawClient user;
  user.connect_as(daemon_.socket(), kSomebody, kSomebody);
  EXPECT_EQ(user.ask("GET", "/v1/config").status, 403);
  EXPECT_EQ(user.ask("GET", "/v1/status").status, 200);
}

TEST_F(DoorTest, LingeringDescriptorsDelayTheirSendersAlone) {
  const std::size_t before = descriptors_of_daemon();
  std::vector<UniqueFd> readers;
  bool was_sent = false;
  for (const int seconds : {3, 30}) {
    for (int i = 0; i < 8; ++i) {
      LingeringSocket attack = make_lingering(seconds);
      ASSERT_TRUE(attack.reader.valid());
      RawClient user;
      user.connect_as(daemon_.socket(), kSomebody, kSomebody);
      // Since Linux 6.16 the kernel refuses to send it.
      was_sent = send_descriptor(user.fd(), attack.lingers.get());
      ASSERT_TRUE(was_sent || errno == EPERM);
      if (!was_sent) attack.reader.reset();
      attack.lingers.reset();
      readers.push_back(std::move(attack.reader));
      EXPECT_LT(ask_as_root(), 1s) << seconds << " " << i;
    }
  }
  // A standstill is seen after 500 ms.
  EXPECT_TRUE(
      eventually([&] { return !was_sent || daemon_.status().connections.doors_replaced >= 1; }));
  readers.clear();
  EXPECT_TRUE(eventually([&] { return daemon_.status().connections.doors_stuck == 0; }));
  EXPECT_TRUE(eventually([&] { return descriptors_of_daemon() <= before + 2; }))
      << before << " " << descriptors_of_daemon();
  RawClient user;
  user.connect_as(daemon_.socket(), kSomebody, kSomebody);
  EXPECT_EQ(user.ask("GET", "/v1/status").status, 200) << "the new door";
}

// The daemon has sent all that they asked for and closed their connections.
TEST_F(DoorTest, ClientsThatReadNothingTakeFewOfItsPlaces) {
  constexpr std::size_t kClients = 400;
  constexpr std::size_t kMostEnding = 96;
  const pid_t door = test::child_called("profd-door", daemon_.process().pid());
  ASSERT_GT(door, 0);
  const std::size_t before = descriptors_of(door);
  std::string requests;
  for (int i = 0; i < 16; ++i) requests += "GET /metrics HTTP/1.1\r\nHost: profd\r\n\r\n";
  requests += "GET /v1/none HTTP/1.1\r\nHost: profd\r\nConnection: close\r\n\r\n";
  std::vector<std::unique_ptr<RawClient>> clients;
  std::size_t most = 0;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<RawClient>());
    clients.back()->connect_as(daemon_.socket(), kSomebody, kSomebody);
    (void)clients.back()->send(requests);  // one too many is closed already
    most = std::max(most, descriptors_of(door));
  }
  EXPECT_GT(most, before + kMostEnding) << "the door keeps them for a while";
  // Two of each client: of 96 that end, of 128 that the daemon answers, and of some that it has not
  // seen yet.
  EXPECT_LE(most, before + 2 * kClients * 3 / 4);
  RawClient other;
  other.connect_as(daemon_.socket(), kSomebody + 1, kSomebody + 1);
  EXPECT_EQ(other.ask("GET", "/v1/status").status, 200);
  StatusInfo status;
  EXPECT_TRUE(eventually([&] {
    status = daemon_.status();
    return status.connections.unread > 0;
  }));
  EXPECT_EQ(unread_of(kSomebody, status), status.connections.unread);
}

TEST_F(DoorTest, ADoorThatDiesIsReplaced) {
  const pid_t door = test::child_called("profd-door", daemon_.process().pid());
  ASSERT_GT(door, 0);
  RawClient kept(daemon_.socket());
  ASSERT_EQ(kept.ask("GET", "/v1/status").status, 200);
  ASSERT_EQ(::kill(door, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return kept.is_closed(); }));
  EXPECT_LT(ask_as_root(), 1s);
  RawClient later(daemon_.socket());
  EXPECT_EQ(later.ask("GET", "/v1/status").status, 200) << "waits for the new door";
  EXPECT_EQ(daemon_.status().connections.doors_replaced, 1U);
}

// The door has the last of them when the daemon has ended: the client's socket is full.
TEST_F(DoorTest, TheLastAnswersArriveWhole) {
  RawClient user;
  user.connect_as(daemon_.socket(), kSomebody, kSomebody);
  const auto waiting = [&user] {
    int bytes = 0;
    return ::ioctl(user.fd(), FIONREAD, &bytes) == 0 ? bytes : 0;
  };
  std::size_t asked = 0;
  for (bool is_full = false; !is_full; ++asked) {
    const int before = waiting();
    ASSERT_TRUE(user.send("GET /v1/status HTTP/1.1\r\nHost: profd\r\n\r\n"));
    is_full = !eventually([&] { return waiting() > before; }, 1s);
  }
  daemon_.process().signal(SIGTERM);
  ASSERT_TRUE(eventually(
      [&] { return daemon_.process().err().find("ending on signal") != std::string::npos; }));
  for (std::size_t i = 0; i < asked; ++i) {
    const RawAnswer answer = user.receive();
    EXPECT_EQ(answer.status, 200) << i << " of " << asked;
    EXPECT_TRUE(answer.body.ends_with("}")) << answer.body.size();
  }
  EXPECT_TRUE(user.is_closed());
  EXPECT_EQ(daemon_.process().wait().status, 0);
}

}  // namespace
}  // namespace profd::e2e
