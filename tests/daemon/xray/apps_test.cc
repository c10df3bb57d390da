// Which apps are admitted, and what a door that dies leaves.

#include "daemon/xray/apps.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tests/children.h"
#include "tests/daemon/control/running_server.h"

namespace profd {
namespace {

constexpr uid_t kAppUser = 12345;
constexpr uid_t kFirstSubordinate = 700'000;
constexpr int kEndedByProfd = 3;

// An app that ends when profd closes its connection.
class App {
 public:
  App(const std::filesystem::path& socket, uid_t uid) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::alarm(60);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(socket.native(), address.sun_path);
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
    char byte = 0;
    if (::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0 ||
        ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      ::_exit(1);
    }
    ::_exit(::recv(fd, &byte, 1, 0) == 0 ? kEndedByProfd : 1);
  }
  App(App&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  App& operator=(App&&) = delete;
  ~App() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Whether profd has disconnected it.
  [[nodiscard]] bool was_disconnected() {
    int status = 0;
    if (::waitpid(pid_, &status, 0) != pid_) return false;
    pid_ = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == kEndedByProfd;
  }

 private:
  pid_t pid_;
};

class XrayAppsTest : public ::testing::Test {
 protected:
  XrayAppsTest() {
    std::ofstream(directory_.path() / "passwd")
        << "user:x:" << kAppUser << ":" << kAppUser << "::/:\n";
    std::ofstream(directory_.path() / "subuid") << "user:" << kFirstSubordinate << ":65536\n";
    apps_ = XrayApps::open(io_, socket(),
                           UidOwners(directory_.path() / "subuid", directory_.path() / "passwd"),
                           &refusals_)
                .value();
  }
  ~XrayAppsTest() override {
    apps_->stop();
    io_.run_for(std::chrono::seconds(60));
  }

  [[nodiscard]] std::filesystem::path socket() const { return directory_.path() / "app.sock"; }

  void run_until(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done() && std::chrono::steady_clock::now() < limit)
      io_.run_one_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(done());
  }

  // Runs until there is one.
  pid_t child(const std::string& comm) {
    pid_t found = 0;
    run_until([&] { return (found = test::child_called(comm, ::getpid())) != 0; });
    return found;
  }

  TemporaryDirectory directory_;
  boost::asio::io_context io_;
  UserRefusals refusals_{UidOwners(directory_.path() / "subuid", directory_.path() / "passwd")};
  std::unique_ptr<XrayApps> apps_;
};

TEST_F(XrayAppsTest, AUserHasALimitThatSubordinateUidsShareAndRootHasNot) {
  std::vector<App> of_user;
  for (std::size_t i = 0; i < XrayApps::kMaxAppsOfUid; ++i) {
    of_user.emplace_back(socket(), i == 0 ? kAppUser : kFirstSubordinate + static_cast<uid_t>(i));
  }
  run_until([&] { return apps_->size() == XrayApps::kMaxAppsOfUid; });
  for (const uid_t uid : {kAppUser, kFirstSubordinate}) {
    App refused(socket(), uid);
    const std::uint64_t before = apps_->refused();
    run_until([&] { return apps_->refused() == before + 1; });
    EXPECT_TRUE(refused.was_disconnected());
  }
  const App of_root(socket(), 0);
  const App of_other(socket(), kAppUser + 1);
  run_until([&] { return apps_->size() == XrayApps::kMaxAppsOfUid + 2; });
  of_user.pop_back();
  run_until([&] { return apps_->size() == XrayApps::kMaxAppsOfUid + 1; });
  const App in_its_place(socket(), kAppUser);
  run_until([&] { return apps_->size() == XrayApps::kMaxAppsOfUid + 2; });
  EXPECT_EQ(apps_->refused(), 2U);
  EXPECT_EQ(refusals_.users().at(0),
            (StatusInfo::User{.uid = kAppUser, .refused = {{"xray.apps_refused", 2}}}));
}

TEST(XrayAppLimits, UsersLeaveHalfToRootAndOneUserLeavesTheOthersTheirs) {
  struct Case {
    XrayApps::Counts connected;
    bool for_root;
    bool for_user;
  };
  for (const Case& one : std::vector<Case>{
           {{.all = 0, .of_users = 0, .of_user = 0}, true, true},
           {{.all = 511, .of_users = 511, .of_user = 63}, true, true},
           {{.all = 64, .of_users = 64, .of_user = 64}, true, false},
           {{.all = 512, .of_users = 512, .of_user = 0}, true, false},
           {{.all = 1023, .of_users = 0, .of_user = 0}, true, true},
           {{.all = 1023, .of_users = 512, .of_user = 0}, true, false},
           {{.all = 1024, .of_users = 0, .of_user = 0}, false, false},
       }) {
    SCOPED_TRACE(std::to_string(one.connected.all) + " " + std::to_string(one.connected.of_users) +
                 " " + std::to_string(one.connected.of_user));
    EXPECT_EQ(XrayApps::has_room(0, one.connected), one.for_root);
    EXPECT_EQ(XrayApps::has_room(kAppUser, one.connected), one.for_user);
  }
}

TEST_F(XrayAppsTest, ADoorThatDiesIsReplacedAndItsAppsAreDisconnected) {
  App app(socket(), kAppUser);
  run_until([&] { return apps_->check_connected(app.pid()).has_value(); });
  const pid_t door = child("profd-app-door");
  ASSERT_GT(door, 0);
  ASSERT_EQ(::kill(door, SIGKILL), 0);
  const pid_t pid = app.pid();
  EXPECT_TRUE(app.was_disconnected());
  run_until([&] { return apps_->size() == 0; });
  EXPECT_FALSE(apps_->check_connected(pid));
  const App later(socket(), kAppUser);
  run_until([&] { return apps_->check_connected(later.pid()).has_value(); });
  EXPECT_EQ(apps_->door().doors_replaced, 1U);
  EXPECT_EQ(apps_->door().closers_replaced, 0U);
}

TEST_F(XrayAppsTest, ACloserThatDiesIsReplacedAndNoAppIsDisconnected) {
  const App app(socket(), kAppUser);
  run_until([&] { return apps_->size() == 1; });
  const pid_t first = child("profd-closer");
  ASSERT_GT(first, 0);
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  run_until([&] { return apps_->door().closers_replaced == 1; });
  run_until([&] {
    const pid_t second = test::child_called("profd-closer", ::getpid());
    return second != 0 && second != first && apps_->door().stuck == 0;
  });
  EXPECT_EQ(apps_->size(), 1U);
  EXPECT_EQ(apps_->door().doors_replaced, 0U);
}

}  // namespace
}  // namespace profd
