// profctl against a daemon that stalls, stops in the middle of an answer, or sends wrong lengths,
// ids and paths.

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctl/client/client.h"
#include "formats/api/error_json.h"
#include "formats/base/unique_fd.h"
#include "tests/ctl/a_result.h"
#include "tests/ctl/ran.h"
#include "tests/daemon/control/running_server.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Answers the first bytes of each connection with what `script` returns for them. Then it closes
// the connection or, without `closes`, keeps it open until the destructor.
class ScriptedDaemon {
 public:
  using Script = std::function<std::string(const std::string& request)>;

  explicit ScriptedDaemon(Script script, bool closes = true)
      : script_(std::move(script)), closes_(closes) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(socket().native(), address.sun_path);
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(listener_.get(), 64) != 0) {
      throw std::runtime_error("could not listen");
    }
    thread_ = std::thread([this] { serve(); });
  }
  ScriptedDaemon(const ScriptedDaemon&) = delete;
  ScriptedDaemon& operator=(const ScriptedDaemon&) = delete;
  ~ScriptedDaemon() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  [[nodiscard]] fs::path socket() const { return directory_.path() / "profd.sock"; }

 private:
  void serve() {
    std::vector<UniqueFd> open;
    while (true) {
      UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.valid()) return;
      char request[65536];
      const ssize_t got = ::recv(client.get(), request, sizeof(request), 0);
      if (got > 0) {
        const std::string answer = script_(std::string(request, static_cast<std::size_t>(got)));
        (void)::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      }
      if (!closes_) open.push_back(std::move(client));
    }
  }

  TemporaryDirectory directory_;
  Script script_;
  bool closes_;
  UniqueFd listener_;
  std::thread thread_;
};

std::string http(const std::string& body, const std::string& length) {
  return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + length + "\r\n\r\n" + body;
}

std::string http(const std::string& body) { return http(body, std::to_string(body.size())); }

TEST(HostileDaemon, IncompleteAnswersAreAFailure) {
  const std::string whole = http(to_json(StatusInfo()));
  for (std::size_t cut = 0; cut < whole.size(); cut += 7) {
    const ScriptedDaemon daemon([&](const std::string&) { return whole.substr(0, cut); });
    const Ran ran = run_with_socket(daemon.socket(), {"status"});
    EXPECT_EQ(ran.code, 3) << cut;
    EXPECT_THAT(ran.err, HasSubstr("closed the connection")) << cut;
  }
  const ScriptedDaemon daemon([&](const std::string&) { return whole; });
  EXPECT_EQ(run_with_socket(daemon.socket(), {"status"}).code, 0) << "the same, not cut";
}

TEST(HostileDaemon, InvalidAnswersAreAFailureOfOneLine) {
  const std::string table[] = {
      "hello\r\n\r\n",
      "HTTP/1.1 abc\r\n\r\n",
      http(""),
      http("{"),
      http("[]"),
      http(R"({"version":1})"),
      http("x", "-1"),
      http("x", "18446744073709551615"),
      "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\nConnection: close\r\n\r\noops",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n",
  };
  for (const std::string& answer : table) {
    const ScriptedDaemon daemon([&](const std::string&) { return answer; });
    const Ran ran = run_with_socket(daemon.socket(), {"status"});
    EXPECT_EQ(ran.code, 1) << answer.substr(0, 60) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("profctl: ")) << answer.substr(0, 60);
    EXPECT_LT(ran.err.size(), 600u);
  }
}

TEST(HostileDaemon, ASilentDaemonTimesOut) {
  for (const std::string& begin :
       {std::string(), std::string("HTTP/1.1 200 OK\r\nContent-"), http("half", "100")}) {
    const ScriptedDaemon daemon([&](const std::string&) { return begin; }, false);
    Client client(daemon.socket(), {.answer = 100ms, .encode = 100ms, .stall = 100ms});
    const auto status = client.status();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
  }
}

TEST(HostileDaemon, TheAdminSocketIsUsedWhereItAnswersAndThePublicOneElse) {
  StatusInfo info;
  info.pid = 1;
  const ScriptedDaemon of_public([info](const std::string&) { return http(to_json(info)); });
  info.pid = 2;
  const ScriptedDaemon of_admin([info](const std::string&) { return http(to_json(info)); });
  const TemporaryDirectory directory;
  const fs::path stale = directory.path() / "stale.sock";
  {
    const ScriptedDaemon gone([](const std::string&) { return std::string(); });
    fs::rename(gone.socket(), stale);
  }
  struct Case {
    fs::path admin;
    std::uint32_t pid;
  };
  for (const Case& c : {Case{of_admin.socket(), 2}, Case{directory.path() / "absent", 1},
                        Case{stale, 1}, Case{"", 1}}) {
    Client client(of_public.socket(), {}, c.admin);
    const auto status = client.status();
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(status->pid, c.pid) << c.admin;
  }
}

TEST(HostileDaemon, ItsErrorsCanNotControlTheTerminal) {
  const std::string body = to_json(fail(ErrorCode::kBusy, "a\x1b]0;b", "c\rd"));
  const ScriptedDaemon daemon([&](const std::string&) {
    return "HTTP/1.1 409 Conflict\r\nConnection: close\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  });
  const Ran ran = run_with_socket(daemon.socket(), {"status"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err, "profctl: a?]0;b\nhint: c?d\n");
}

TEST(HostileDaemon, AnInvalidIdIsRefused) {
  for (const char* id : {"", "..", "a/b", "a b", "$(x)"}) {
    const ScriptedDaemon daemon([&](const std::string&) { return http(started_json(id)); });
    const Ran ran = run_with_socket(daemon.socket(), {"start", "-a"});
    EXPECT_EQ(ran.code, 1) << id;
    EXPECT_EQ(ran.out, "");
  }
}

class HostileResultTest : public ::testing::Test {
 protected:
  HostileResultTest() { give_a_result(service_); }

  // Stops a session whose result is service_.result and whose files' answers are `file`.
  Ran stop(const std::string& file) {
    const ScriptedDaemon daemon([&](const std::string& request) {
      return request.starts_with("POST") ? http(to_json(service_.result)) : file;
    });
    return run_with_socket(daemon.socket(), {"stop", "5f2c01ab", "-o", out_});
  }

  void expect_nothing_written() {
    EXPECT_TRUE(fs::is_empty(directory_.path())) << "nothing, nowhere";
  }

  FakeService service_;
  TemporaryDirectory directory_;
  fs::path out_ = directory_.path() / "deep" / "out";
};

TEST_F(HostileResultTest, InvalidPathsAreNotWritten) {
  const std::string absolute = (directory_.path() / "absolute").string();
  for (const std::string& path :
       {std::string("../evil"), std::string("../../evil"), absolute, std::string("a/../../../evil"),
        std::string("objects/../../evil"), std::string(""), std::string("."), std::string("a\nb"),
        std::string("a/"), std::string(5000, 'a')}) {
    service_.result.files = {{path, 1}};
    service_.result.summary.profiles.clear();
    const Ran ran = stop(http("x"));
    EXPECT_EQ(ran.code, 1) << path;
    EXPECT_THAT(ran.err, HasSubstr("is invalid")) << path;
    expect_nothing_written();
  }
}

TEST_F(HostileResultTest, ResultsThatContradictThemselvesAreNotWritten) {
  const ResultInfo good = service_.result;
  const std::function<void(ResultInfo&)> table[] = {
      [](ResultInfo& result) { result.files.push_back(result.files.front()); },
      [](ResultInfo& result) { result.files.pop_back(); },
      [](ResultInfo& result) { result.result = "../x"; },
      [](ResultInfo& result) { result.files.front().bytes = std::uint64_t{1} << 60; },
      [](ResultInfo& result) { result.summary.profiles.front().path = "/etc/passwd"; },
  };
  for (const auto& change : table) {
    service_.result = good;
    change(service_.result);
    EXPECT_EQ(stop(http("x")).code, 1);
    expect_nothing_written();
  }
}

TEST_F(HostileResultTest, FilesOfAWrongLengthAreNotWritten) {
  service_.result.files = {{"work.1.prof", 5}};
  service_.result.summary.profiles.resize(1);
  for (const std::string& answer :
       {http("1234"), http("123456"), http(""), http("12", "5"), http(std::string(200'000, 'x')),
        http("12345", "99999999999")}) {
    const Ran ran = stop(answer);
    EXPECT_NE(ran.code, 0) << answer.substr(0, 100);
    expect_nothing_written();
  }
  EXPECT_EQ(stop(http("12345")).code, 0) << "the stated length";
}

}  // namespace
}  // namespace profd
