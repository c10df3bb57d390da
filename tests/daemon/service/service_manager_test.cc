#include "daemon/service/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <string>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gmock/gmock.h>
#include <stdlib.h>

#include "daemon/service/unix_listener.h"
#include "daemon/service/watchdog.h"
#include "formats/base/unique_fd.h"
#include "tests/daemon/control/running_server.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::SizeIs;

// The manager's end of NOTIFY_SOCKET, a path or, with a leading '@', an abstract name.
class FakeManager {
 public:
  explicit FakeManager(const std::string& name)
      : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(name, address.sun_path);
    if (name[0] == '@') address.sun_path[0] = 0;
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }

  // The next datagram; empty when there is none.
  std::string next() {
    std::array<char, 4096> bytes{};
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    return got < 0 ? std::string() : std::string(bytes.data(), static_cast<std::size_t>(got));
  }

  // Counts the datagrams that are `text`, and takes all.
  int count(const std::string& text) {
    int found = 0;
    for (std::string line = next(); !line.empty(); line = next()) found += line == text ? 1 : 0;
    return found;
  }

 private:
  UniqueFd socket_;
};

TEST(ServiceManager, IsNotifiedByTheProtocolOfSdNotify) {
  const TemporaryDirectory directory;
  FakeManager fake(directory.path() / "notify");
  ServiceManager manager = ServiceManager::from_environment();
  ASSERT_TRUE(manager.is_present());
  manager.ready();
  EXPECT_EQ(fake.next(), "READY=1");
  manager.reloading();
  EXPECT_THAT(fake.next(), MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+"));
  manager.status("two\nlines");
  EXPECT_EQ(fake.next(), "STATUS=two lines");
  manager.alive();
  EXPECT_EQ(fake.next(), "WATCHDOG=1");
  manager.stopping();
  EXPECT_EQ(fake.next(), "STOPPING=1");
}

TEST(ServiceManager, MayListenInTheAbstractNamespace) {
  FakeManager fake("@profd-test-" + std::to_string(::getpid()));
  ServiceManager::from_environment().ready();
  EXPECT_EQ(fake.next(), "READY=1");
}

TEST(ServiceManager, IsNotPresentWithoutASocketThatCanBeReached) {
  for (const char* name : {"", "relative", "/nonexistent/notify"}) {
    ::setenv("NOTIFY_SOCKET", name, 1);
    ServiceManager manager = ServiceManager::from_environment();
    EXPECT_FALSE(manager.is_present()) << name;
    manager.ready();
  }
}

TEST(ServiceManager, UnsetsItsVariablesForChildren) {
  ::setenv("NOTIFY_SOCKET", "/nonexistent", 1);
  ::setenv("WATCHDOG_USEC", "1000", 1);
  ::setenv("WATCHDOG_PID", "1", 1);
  (void)ServiceManager::from_environment();
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
    EXPECT_EQ(::getenv(name), nullptr) << name;
  }
}

TEST(ServiceManager, HasAWatchdogTimeoutOnlyForThisProcess) {
  struct Case {
    const char* usec;
    std::string pid;
    bool watches;
  };
  const std::string own = std::to_string(::getpid());
  const Case cases[] = {{"30000000", own, true}, {"30000000", "", true}, {"30000000", "1", false},
                        {"0", own, false},       {"x", own, false},      {"-5", own, false}};
  for (const Case& c : cases) {
    ::setenv("WATCHDOG_USEC", c.usec, 1);
    ::setenv("WATCHDOG_PID", c.pid.c_str(), 1);
    EXPECT_EQ(ServiceManager::from_environment().watchdog_timeout().has_value(), c.watches)
        << c.usec << " " << c.pid;
  }
}

// A daemon whose parts do as the test says, and a manager with a timeout of 30 ms.
class WatchdogTest : public testing::Test {
 protected:
  WatchdogTest() : fake_(directory_.path() / "notify"), manager_(watching_manager()) {}

  static ServiceManager watching_manager() {
    ::setenv("WATCHDOG_USEC", "30000", 1);
    ::unsetenv("WATCHDOG_PID");
    return ServiceManager::from_environment();
  }

  // The reports of some intervals.
  int reports() {
    HealthProbes health_probes{.drains = [this] { return drains_ ? drains_() : std::nullopt; },
                               .ask_worker = [this]() -> boost::asio::awaitable<void> {
                                 if (!worker_hangs_) co_return;
                                 boost::asio::steady_timer never(io_, 24h);
                                 hanging_ = &never;
                                 boost::system::error_code ignored;
                                 co_await never.async_wait(boost::asio::redirect_error(
                                     boost::asio::use_awaitable, ignored));
                               },
                               .status = [] { return std::string("well"); }};
    Watchdog watchdog(io_, manager_, std::move(health_probes), {.interval = 1h, .worker = 20ms});
    boost::asio::steady_timer end(io_, 300ms);
    end.async_wait([&](const boost::system::error_code&) {
      watchdog.stop();
      if (hanging_ != nullptr) hanging_->cancel();
    });
    io_.run();
    io_.restart();
    return fake_.count("WATCHDOG=1");
  }

  TemporaryDirectory directory_;
  FakeManager fake_;
  ServiceManager manager_;
  boost::asio::io_context io_{1};
  std::function<std::optional<std::uint64_t>()> drains_;
  bool worker_hangs_ = false;
  boost::asio::steady_timer* hanging_ = nullptr;
};

TEST_F(WatchdogTest, ReportsADaemonThatHasNothingToDo) { EXPECT_GT(reports(), 2); }

TEST_F(WatchdogTest, ReportsWhileRingsAreDrained) {
  std::uint64_t drains = 0;
  drains_ = [&drains] { return ++drains; };
  EXPECT_GT(reports(), 2);
}

TEST_F(WatchdogTest, StopsReportingWhenRingsAreNotDrained) {
  drains_ = [] { return 7; };
  EXPECT_EQ(reports(), 1) << "the first, which has no count to compare with";
}

TEST_F(WatchdogTest, StopsReportingWhenTheWorkerHangs) {
  worker_hangs_ = true;
  const int sent = reports();
  EXPECT_GE(sent, 1);
  EXPECT_LT(sent, 5);
}

TEST(PassedSockets, AreOnlyThoseForThisProcess) {
  ::setenv("LISTEN_FDS", "1", 1);
  ::setenv("LISTEN_PID", "1", 1);
  EXPECT_THAT(take_passed_sockets(), IsEmpty());
  EXPECT_EQ(::getenv("LISTEN_FDS"), nullptr);
  for (const char* count : {"0", "-1", "x", "1000000", ""}) {
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", count, 1);
    EXPECT_THAT(take_passed_sockets(), IsEmpty()) << count;
  }
}

TEST(UnixListener, AdoptsOnlyAListeningSocket) {
  UniqueFd silent(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  UniqueFd datagram(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  UniqueFd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(UnixListener::adopt(std::move(silent)));
  EXPECT_FALSE(UnixListener::adopt(std::move(datagram)));
  EXPECT_FALSE(UnixListener::adopt(std::move(other)));
  EXPECT_FALSE(UnixListener::adopt(UniqueFd()));
}

}  // namespace
}  // namespace profd
