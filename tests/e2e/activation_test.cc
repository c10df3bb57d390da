// profd as a service manager starts it: a socket that is passed, a manager that is told, and the
// checks that scripts ask for.

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>

#include <stdlib.h>

#include "formats/api/check_report.h"
#include "formats/base/unique_fd.h"
#include "tests/e2e/harness.h"

namespace profd::e2e {
namespace {

using testing::HasSubstr;

UniqueFd bound(int type, const std::filesystem::path& path) {
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(path.native(), address.sun_path);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

// The part of systemd that holds the socket and hears what profd says.
class Manager {
 public:
  Manager() : control_(bound(SOCK_STREAM, socket())), notify_(bound(SOCK_DGRAM, notify_path())) {
    EXPECT_EQ(::listen(control_.get(), 64), 0);
    ::fcntl(notify_.get(), F_SETFL, O_NONBLOCK);
  }

  [[nodiscard]] std::filesystem::path socket() const { return directory_.path() / "profd.sock"; }

  std::unique_ptr<Process> start_profd() {
    Process::Options options;
    options.environment = {{"LISTEN_FDS", "1"},
                           {"LISTEN_FDNAMES", "control"},
                           {"NOTIFY_SOCKET", notify_path()},
                           {"WATCHDOG_USEC", "300000"}};
    options.before_exec = [control = control_.get()] {
      ::dup2(control, 3);
      ::fcntl(3, F_SETFD, 0);  // it may have been 3 all along
      ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    };
    const Args command = {PROFD_BINARY, "--socket", socket(), "--state-dir",
                          directory_.path() / "state"};
    return std::make_unique<Process>(command, options);
  }

  [[nodiscard]] Args profctl(const std::string& verb) const {
    return {PROFCTL_BINARY, "--socket", socket(), verb};
  }

  // Whether profd has said so by now, or says so soon.
  bool hears(const std::string& text) {
    return eventually([&] {
      std::array<char, 4096> bytes{};
      const ssize_t got = ::recv(notify_.get(), bytes.data(), bytes.size(), 0);
      if (got > 0) heard_ += std::string(bytes.data(), static_cast<std::size_t>(got)) + "\n";
      return heard_.find(text) != std::string::npos;
    });
  }

  void forget() { heard_.clear(); }

 private:
  [[nodiscard]] std::filesystem::path notify_path() const { return directory_.path() / "notify"; }

  TemporaryDirectory directory_;
  UniqueFd control_;
  UniqueFd notify_;
  std::string heard_;
};

TEST(Activation, AnswersWhoAskedBeforeItWasThere) {
  Manager manager;
  Process early(manager.profctl("status"));
  const auto profd = manager.start_profd();
  EXPECT_EQ(early.wait().status, 0) << early.err() << profd->err();
}

TEST(Activation, LeavesTheSocketToWhoMadeIt) {
  Manager manager;
  auto profd = manager.start_profd();
  ASSERT_TRUE(manager.hears("READY=1\n")) << profd->err();
  profd->signal(SIGTERM);
  EXPECT_EQ(profd->wait().status, 0) << profd->err();
  EXPECT_TRUE(std::filesystem::is_socket(manager.socket()));
  Process between(manager.profctl("list"));
  profd = manager.start_profd();
  EXPECT_EQ(between.wait().status, 0) << between.err();
}

TEST(Activation, TellsTheManagerHowItIs) {
  Manager manager;
  auto profd = manager.start_profd();
  EXPECT_TRUE(manager.hears("READY=1\n")) << profd->err();
  EXPECT_TRUE(manager.hears("STATUS=0 samples, 0 lost"));
  EXPECT_TRUE(manager.hears("WATCHDOG=1\n"));
  manager.forget();
  EXPECT_TRUE(manager.hears("WATCHDOG=1\n")) << "again";
  manager.forget();
  profd->signal(SIGHUP);
  EXPECT_TRUE(manager.hears("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_TRUE(manager.hears("READY=1\n"));
  profd->signal(SIGTERM);
  EXPECT_TRUE(manager.hears("STOPPING=1\n"));
}

TEST(Check, SaysThatThisHostHasWhatItNeeds) {
  const Ended ended = run({PROFD_BINARY, "--check", "--json"});
  EXPECT_EQ(ended.status, 0) << ended.out;
  const auto report = parse_check_report(ended.out);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_LT(worst_state(*report), CheckState::kFatal);
  EXPECT_EQ(run({PROFD_BINARY, "--check"}).status, 0);
}

CheckState pid_namespace_of(const Ended& ended) {
  EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
  const auto report = parse_check_report(ended.out);
  if (!report) return CheckState::kUnknown;
  const auto point = std::ranges::find(*report, "pid_namespace", &CheckPoint::name);
  return point == report->end() ? CheckState::kUnknown : point->state;
}

TEST(Check, WarnsInAPidNamespaceOfItsOwn) {
  const bool is_host = std::filesystem::read_symlink("/proc/self/ns/pid") == "pid:[4026531836]";
  EXPECT_EQ(pid_namespace_of(run({PROFD_BINARY, "--check", "--json"})),
            is_host ? CheckState::kOk : CheckState::kFix);
  EXPECT_EQ(
      pid_namespace_of(run({"unshare", "--pid", "--fork", PROFD_BINARY, "--check", "--json"})),
      CheckState::kFix);
}

TEST(Check, SaysWhatAnOrdinaryUserLacks) {
  Process::Options options;
  options.uid = 65534;
  const Ended ended = run({PROFD_BINARY, "--check"}, options);
  EXPECT_EQ(ended.status, 6);
  EXPECT_THAT(ended.out, HasSubstr("not root, and no CAP_BPF"));
}

TEST(CheckConfig, ExitsWithTheVerdict) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "profd.toml";
  std::ofstream(file) << "log_level = \"debug\"\n";
  const Ended good = run({PROFD_BINARY, "--check-config", "--config", file});
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_EQ(good.out, "ok\n");
  std::ofstream(file) << "\n[continuous]\nfrequncy = 19\n";
  const Ended bad = run({PROFD_BINARY, "--check-config", "--config", file});
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr(file + ":3:1: unknown key continuous.frequncy"));
  EXPECT_THAT(bad.err, HasSubstr("did you mean frequency?"));
}

}  // namespace
}  // namespace profd::e2e
