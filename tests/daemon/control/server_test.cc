#include "daemon/control/server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "daemon/base/coroutines.h"
#include "formats/base/unique_fd.h"
#include "tests/daemon/control/raw_client.h"
#include "tests/daemon/control/running_server.h"
#include "tests/daemon/control/server_fixture.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using test::ControlServerTest;
using test::error_of;
using test::kSomebody;
using test::kSomeGroup;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(ControlServerTest, AnswersSeveralRequestsOnAConnection) {
  const RunningServer server(service_, patient());
  RawClient client(server.socket());
  for (int i = 0; i < 3; ++i) {
    const RawAnswer answer = client.ask("GET", "/v1/status");
    EXPECT_EQ(answer.status, 200);
    EXPECT_THAT(answer.header, HasSubstr("Content-Type: application/json"));
    EXPECT_EQ(parse_status_info(answer.body)->version, "0.1.0");
  }
}

TEST_F(ControlServerTest, ClosesAfterTheAnswerWhenAskedTo) {
  const RunningServer server(service_, patient());
  RawClient client(server.socket());
  client.send("GET /v1/status HTTP/1.1\r\nHost: profd\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_TRUE(client.is_closed());
}

TEST_F(ControlServerTest, EveryRouteCallsItsFunction) {
  const RunningServer server(service_, patient());
  service_.files["work.1.prof"] = "profile";
  service_.files["objects/k.so"] = "object";
  struct Case {
    const char* method;
    const char* target;
    const char* body;
    int status;
    const char* call;
  };
  const Case table[] = {
      {"GET", "/v1/status", "", 200, "status"},
      {"POST", "/v1/sessions", R"({"target":{"all":true}})", 201, "start"},
      {"GET", "/v1/sessions", "", 200, "sessions"},
      {"GET", "/v1/sessions/5f2c01ab", "", 200, "session 5f2c01ab"},
      {"POST", "/v1/sessions/5f2c01ab/stop", "", 200, "stop 5f2c01ab"},
      {"POST", "/v1/sessions/5f2c01ab/dump", "", 200, "dump 5f2c01ab"},
      {"POST", "/v1/sessions/5f2c01ab/take", "", 200, "take 5f2c01ab"},
      {"GET", "/v1/results/5f2c01ab/files/work.1.prof", "", 200, "open 5f2c01ab work.1.prof"},
      {"GET", "/v1/results/5f2c01ab/files/objects/k.so", "", 200, "open 5f2c01ab objects/k.so"},
      {"DELETE", "/v1/results/5f2c01ab", "", 204, "remove 5f2c01ab"},
      {"GET", "/v1/sessions/other", "", 404, "session other"},
      {"GET", "/v1/results/5f2c01ab/files/absent", "", 404, "open 5f2c01ab absent"},
  };
  RawClient client(server.socket());
  for (const Case& c : table) {
    const RawAnswer answer = client.ask(c.method, c.target, c.body);
    EXPECT_EQ(answer.status, c.status) << c.target;
    ASSERT_FALSE(service_.calls.empty());
    EXPECT_EQ(service_.calls.back(), c.call);
  }
}

TEST_F(ControlServerTest, AFileThatThePageCacheLacksIsReadFromTheDisk) {
  std::ifstream file("/proc/version");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(text.empty());
  service_.uncached_bytes = text.size();
  const RunningServer server(service_, patient());
  const RawAnswer answer =
      RawClient(server.socket()).ask("GET", "/v1/results/5f2c01ab/files/uncached");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, text);
}

TEST_F(ControlServerTest, AWindowHasItsNameOrThatOfItsFile) {
  const RunningServer server(service_, patient());
  RawClient client(server.socket());
  for (const std::string name : {"w1", "w1.pb.gz"}) {
    const RawAnswer file = client.ask("GET", "/v1/windows/" + name);
    EXPECT_EQ(file.status, 200) << name;
    EXPECT_EQ(file.body, "file of w1");
    EXPECT_THAT(client.ask("GET", "/v1/windows?after=" + name).body, HasSubstr("\"w1-next\""));
  }
}

TEST_F(ControlServerTest, AProfileOfTheNextSecondsIsOneAnswer) {
  const RunningServer server(service_, patient());
  service_.result.named_profile = ResultFile{.path = "profile.pb.gz", .bytes = 5};
  service_.files["profile.pb.gz"] = "named";
  service_.info.state = "running";
  int asked = 0;
  service_.on_session = [&asked](SessionInfo& info) {
    if (++asked == 3) info.state = "ended";
  };
  RawClient client(server.socket());
  const RawAnswer answer = client.ask("GET", "/debug/pprof/profile?seconds=7", "");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "named");
  EXPECT_EQ(asked, 3);
  ASSERT_EQ(service_.started.size(), 1U);
  EXPECT_TRUE(service_.started[0].target.all);
  EXPECT_EQ(service_.started[0].duration_ms, 7000U);
  EXPECT_GT(service_.started[0].lease_ms, 0U);
  EXPECT_EQ(service_.calls.back(), "remove 5f2c01ab");
  for (const char* query : {"?seconds=0", "?seconds=601", "?seconds=1x", "?second=1", "?1"}) {
    EXPECT_EQ(client.ask("GET", std::string("/debug/pprof/profile") + query, "").status, 400);
  }
  EXPECT_EQ(service_.started.size(), 1U);
}

TEST_F(ControlServerTest, AProfileThatCannotBeStoredLeavesNoSession) {
  const RunningServer server(service_, patient());
  service_.info.state = "ended";
  service_.before_result = [this]() -> boost::asio::awaitable<void> {
    service_.error = fail(ErrorCode::kIo, "no space left on the device");
    co_return;
  };
  RawClient client(server.socket());
  const RawAnswer answer = client.ask("GET", "/debug/pprof/profile?seconds=1", "");
  EXPECT_NE(answer.status, 200);
  EXPECT_THAT(answer.body, testing::HasSubstr("no space left"));
  EXPECT_EQ(service_.calls.back(), "remove 5f2c01ab");
}

TEST_F(ControlServerTest, APathThatIsNoRouteCallsNothing) {
  const RunningServer server(service_, patient());
  struct Case {
    const char* method;
    const char* target;
    int status;
  };
  const Case table[] = {
      {"GET", "/", 404},
      {"GET", "*", 404},
      {"GET", "/v1", 404},
      {"GET", "/v1/status/", 404},
      {"GET", "/v1/status?x=1", 404},
      {"GET", "//v1/status", 404},
      {"GET", "v1/status", 404},
      {"GET", "/v2/status", 404},
      {"GET", "/v1/sessions/", 404},
      {"GET", "/v1/sessions/..", 404},
      {"GET", "/v1/sessions/a%2fb", 404},
      {"GET", "/v1/sessions/a.b", 404},
      {"GET", "/v1/windows.pb.gz", 404},
      {"GET", "/v1/windows/.pb.gz", 404},
      {"GET", "/v1/windows/w1.pb.gz.pb.gz", 404},
      {"GET", "/v1/windows/w1.pb.gz?x=1", 404},
      {"POST", "/v1/sessions/5f2c01ab/stop/", 404},
      {"POST", "/v1/sessions/5f2c01ab/kill", 404},
      {"GET", "/v1/results/5f2c01ab/files/", 404},
      {"GET", "/v1/results/5f2c01ab/files/../meta.json", 404},
      {"GET", "/v1/results/5f2c01ab/files//etc/passwd", 404},
      {"GET", "/v1/results/5f2c01ab/files/a/../../b", 404},
      {"GET", "/v1/results/../files/a", 404},
      {"POST", "/v1/status", 405},
      {"PUT", "/v1/sessions", 405},
      {"DELETE", "/v1/sessions/5f2c01ab", 405},
      {"GET", "/v1/sessions/5f2c01ab/stop", 405},
      {"BREW", "/v1/status", 405},
  };
  for (const Case& c : table) {
    RawClient client(server.socket());
    const RawAnswer answer = client.ask(c.method, c.target);
    EXPECT_EQ(answer.status, c.status) << c.method << " " << c.target;
    EXPECT_THAT(error_of(answer).message, HasSubstr("path")) << c.target;
  }
  EXPECT_THAT(service_.calls, IsEmpty());
}

TEST_F(ControlServerTest, AnAnswerToHeadHasNoBody) {
  const RunningServer server(service_, patient());
  RawClient client(server.socket());
  client.send("HEAD /v1/status HTTP/1.1\r\n\r\nGET /v1/status HTTP/1.1\r\n\r\n");
  const RawAnswer head = client.receive();
  EXPECT_EQ(head.status, 405);
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(client.receive().status, 200);
}

// Gives what a request waits for as long as it is wanted.
struct LongWait {
  std::promise<void> began;
  std::promise<void> ended;

  boost::asio::awaitable<void> run(IsWanted is_wanted) {
    began.set_value();
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
    while (is_wanted()) {
      timer.expires_after(5ms);
      co_await wait_for(timer);
    }
    ended.set_value();
  }
};

TEST_F(ControlServerTest, WhatAClientWaitsForIsUnwantedOnceItHasGone) {
  LongWait wait;
  service_.on_wait = [&wait](IsWanted is_wanted) { return wait.run(std::move(is_wanted)); };
  const RunningServer server(service_, patient());
  auto ended = wait.ended.get_future();
  {
    RawClient client(server.socket());
    client.send("GET /v1/windows HTTP/1.1\r\n\r\n");
    wait.began.get_future().wait();
    ASSERT_EQ(::shutdown(client.fd(), SHUT_WR), 0);  // it can still read
    EXPECT_EQ(ended.wait_for(50ms), std::future_status::timeout);
  }
  EXPECT_EQ(ended.wait_for(20s), std::future_status::ready);
}

TEST_F(ControlServerTest, WhatAClientWaitsForIsUnwantedOnceTheServerStops) {
  LongWait wait;
  service_.on_wait = [&wait](IsWanted is_wanted) { return wait.run(std::move(is_wanted)); };
  RunningServer server(service_, patient());
  RawClient client(server.socket());
  client.send("GET /v1/windows HTTP/1.1\r\n\r\n");
  wait.began.get_future().wait();
  server.stop();
  EXPECT_EQ(wait.ended.get_future().wait_for(0s), std::future_status::ready);
  EXPECT_EQ(client.receive().status, 200) << "the answer as it was then";
}

TEST_F(ControlServerTest, AnErrorHasItsStatusCodeMessageAndHint) {
  const RunningServer server(service_, patient());
  const std::pair<ErrorCode, int> table[] = {
      {ErrorCode::kInvalidArgument, 400},
      {ErrorCode::kMalformed, 400},
      {ErrorCode::kPermissionDenied, 403},
      {ErrorCode::kNotFound, 404},
      {ErrorCode::kTimeout, 408},
      {ErrorCode::kBusy, 409},
      {ErrorCode::kTooLarge, 413},
      {ErrorCode::kUnsupported, 501},
      {ErrorCode::kIo, 500},
      {ErrorCode::kInternal, 500},
      {ErrorCode::kUnavailable, 503},
  };
  RawClient client(server.socket());
  for (const auto& [code, status] : table) {
    service_.error = fail(code, "what", "do this");
    const RawAnswer answer = client.ask("POST", "/v1/sessions/5f2c01ab/stop");
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(error_of(answer).code, code);
    EXPECT_EQ(error_of(answer).message, "what");
    EXPECT_EQ(error_of(answer).hint, "do this");
  }
}

TEST_F(ControlServerTest, AnExceptionInsideIsAnErrorAnswer) {
  const RunningServer server(service_, patient());
  RawClient client(server.socket());
  service_.on_call = [] { throw std::runtime_error("a secret detail"); };
  const RawAnswer answer = client.ask("GET", "/v1/status");
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(error_of(answer).code, ErrorCode::kInternal);
  EXPECT_EQ(answer.body.find("secret"), std::string::npos);
  service_.on_call = nullptr;
  EXPECT_EQ(client.ask("GET", "/v1/status").status, 200);
}

TEST_F(ControlServerTest, AFileLargerThanAnyBufferArrivesWhole) {
  std::string bytes(5'000'001, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 256);
  service_.files["big.1.prof"] = bytes;
  service_.files["empty.1.prof"] = "";
  const RunningServer server(service_, patient());
  RawClient client(server.socket());
  EXPECT_TRUE(client.ask("GET", "/v1/results/5f2c01ab/files/big.1.prof").body == bytes);
  const RawAnswer empty = client.ask("GET", "/v1/results/5f2c01ab/files/empty.1.prof");
  EXPECT_THAT(empty.header, HasSubstr("Content-Length: 0"));
  EXPECT_THAT(empty.header, HasSubstr("application/octet-stream"));
}

TEST_F(ControlServerTest, MalformedRequestsGet400AndDisturbNoOtherClient) {
  const RunningServer server(service_, patient());
  RawClient other(server.socket());
  const char* const table[] = {
      "\r\n\r\n",
      "GET\r\n\r\n",
      "GET /v1/status\r\n\r\n",
      "GET /v1/status HTTP/9.9\r\n\r\n",
      "GET /v1/status HTTP/1.1\r\nno colon\r\n\r\n",
      "GET /v1/status HTTP/1.1\r\n: empty\r\n\r\n",
      "GET /v1/st\x01tus HTTP/1.1\r\n\r\n",
      "POST /v1/sessions HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
      "POST /v1/sessions HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
      "POST /v1/sessions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
  };
  for (const char* const bytes : table) {
    RawClient client(server.socket());
    client.send(bytes);
    const RawAnswer answer = client.receive();
    EXPECT_EQ(answer.status, 400) << bytes;
    EXPECT_EQ(error_of(answer).code, ErrorCode::kMalformed) << bytes;
    EXPECT_TRUE(client.is_closed()) << bytes;
    EXPECT_EQ(other.ask("GET", "/v1/status").status, 200);
  }
}

TEST_F(ControlServerTest, AnInvalidBodyGets400AndTheConnectionStaysOpen) {
  const RunningServer server(service_, patient());
  RawClient client(server.socket());
  EXPECT_EQ(client.ask("POST", "/v1/sessions", "{").status, 400);
  EXPECT_EQ(client.ask("POST", "/v1/sessions", "").status, 400);
  const RawAnswer answer = client.ask("POST", "/v1/sessions", R"({"target":{"all":true},"x":1})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(error_of(answer).message, HasSubstr("x: no such field"));
  EXPECT_THAT(service_.started, IsEmpty());
}

TEST_F(ControlServerTest, OversizedRequestsGet413) {
  const RunningServer server(service_, patient());
  const std::string long_header =
      "GET /v1/status HTTP/1.1\r\nX: " + std::string(9000, 'x') + "\r\n\r\n";
  const std::string endless_header = "GET /v1/status HTTP/1.1\r\nX: " + std::string(100'000, 'x');
  const std::string long_body = "POST /v1/sessions HTTP/1.1\r\nContent-Length: 65537\r\n\r\n";
  const std::string absurd_body =
      "POST /v1/sessions HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n";
  const std::string chunks = "POST /v1/sessions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" +
                             std::string("10000\r\n") + std::string(0x10000, ' ') +
                             "\r\n10000\r\n" + std::string(0x10000, ' ') + "\r\n0\r\n\r\n";
  for (const std::string& bytes : {long_header, endless_header, long_body, absurd_body, chunks}) {
    RawClient client(server.socket());
    client.send(bytes);
    const RawAnswer answer = client.receive();
    EXPECT_EQ(answer.status, 413) << bytes.substr(0, 80);
    EXPECT_EQ(error_of(answer).code, ErrorCode::kTooLarge);
  }
  RawClient client(server.socket());
  const std::string largest = R"({"target":{"all":true}})" + std::string(65536 - 23, ' ');
  EXPECT_EQ(client.ask("POST", "/v1/sessions", largest).status, 201);
}

TEST_F(ControlServerTest, WhatACallerIsRefusedIsCountedAndNothingElse) {
  RunningServer server(service_, patient());
  RawClient client;
  client.connect_as(server.socket(), kSomebody, kSomeGroup);
  EXPECT_EQ(client.ask("POST", "/v1/sessions", "{").status, 400);
  EXPECT_EQ(client.ask("PUT", "/v1/sessions").status, 405);
  EXPECT_EQ(client.ask("GET", "/v1/status").status, 200);
  for (const ErrorCode code :
       {ErrorCode::kPermissionDenied, ErrorCode::kTooLarge, ErrorCode::kBusy, ErrorCode::kNotFound,
        ErrorCode::kUnsupported, ErrorCode::kUnavailable, ErrorCode::kTimeout, ErrorCode::kIo}) {
    service_.error = fail(code, "what");
    (void)client.ask("POST", "/v1/sessions/5f2c01ab/stop");
  }
  client.send("no HTTP\r\n\r\n");
  EXPECT_EQ(client.receive().status, 400);
  server.stop();
  EXPECT_THAT(service_.refusals,
              ElementsAre("4711 POST /v1/sessions: malformed", "4711 request: invalid_argument",
                          "4711 POST /v1/sessions/ID/stop: permission_denied",
                          "4711 POST /v1/sessions/ID/stop: too_large",
                          "4711 POST /v1/sessions/ID/stop: busy", "4711 request: malformed"));
}

TEST_F(ControlServerTest, CallersHaveTheCredentialsThatTheKernelRecorded) {
  const RunningServer server(service_, patient());
  RawClient root(server.socket());
  root.ask("GET", "/v1/status");
  RawClient somebody;
  somebody.connect_as(server.socket(), kSomebody, kSomeGroup);
  somebody.ask("GET", "/v1/status");
  ASSERT_EQ(service_.callers.size(), 2u);
  EXPECT_EQ(service_.callers[0].uid, 0u);
  EXPECT_TRUE(service_.callers[0].privileged);
  EXPECT_EQ(service_.callers[0].pid, ::getpid());
  EXPECT_EQ(service_.callers[1].uid, kSomebody);
  EXPECT_EQ(service_.callers[1].gid, kSomeGroup);
  EXPECT_FALSE(service_.callers[1].privileged);
}

// By the kernel since Linux 6.16.
TEST_F(ControlServerTest, DescriptorsThatAClientSendsAreRefusedOrClosed) {
  constexpr int kPassRights = 83;  // SO_PASSRIGHTS
  const RunningServer server(service_, patient());
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  std::string request = "GET /v1/status HTTP/1.1\r\n\r\n";
  iovec bytes{request.data(), request.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = write_end.get();
  std::copy_n(reinterpret_cast<const char*>(&fd), sizeof(fd),
              reinterpret_cast<char*>(CMSG_DATA(rights)));
  RawClient client(server.socket());
  int passes = 0;
  socklen_t size = sizeof(passes);
  const bool are_refused = ::getsockopt(client.fd(), SOL_SOCKET, kPassRights, &passes, &size) == 0;
  const ssize_t sent = ::sendmsg(client.fd(), &message, MSG_NOSIGNAL);
  const int error = errno;
  if (are_refused) {
    EXPECT_EQ(sent, -1);
    EXPECT_EQ(error, EPERM);
    ASSERT_TRUE(client.send(request));
  } else {
    ASSERT_EQ(sent, static_cast<ssize_t>(request.size()));
  }
  write_end.reset();
  EXPECT_EQ(client.receive().status, 200);
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), 0) << "no writer may be left";
}

TEST_F(ControlServerTest, StopWaitsForAnswersThatHaveBegunAndClosesIdleConnections) {
  std::promise<void> entered;
  service_.before_result = [&]() -> boost::asio::awaitable<void> {
    entered.set_value();
    constexpr auto kLongerThanGrace = 2500ms;
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, kLongerThanGrace);
    co_await timer.async_wait(boost::asio::use_awaitable);
  };
  RunningServer server(service_, patient());
  RawClient idle(server.socket());
  EXPECT_EQ(idle.ask("GET", "/v1/status").status, 200);
  RawClient busy(server.socket());
  busy.send("POST /v1/sessions/5f2c01ab/stop HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
  entered.get_future().wait();
  server.stop();
  EXPECT_EQ(busy.receive().status, 200);
  EXPECT_TRUE(busy.is_closed());
  EXPECT_TRUE(idle.is_closed());
  EXPECT_FALSE(std::filesystem::exists(server.socket()));
}

TEST_F(ControlServerTest, StopDoesNotWaitForAClientThatDoesNotRead) {
  service_.files["big.1.prof"] = std::string(8'000'000, 'x');
  RunningServer server(service_, patient());
  RawClient deaf(server.socket());
  deaf.send("GET /v1/results/5f2c01ab/files/big.1.prof HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(deaf.receive_more()) << "the answer has begun";
  const auto began = std::chrono::steady_clock::now();
  server.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - began, 30s) << "patient() would wait for 60 s";
  EXPECT_LT(deaf.receive().body.size(), 8'000'000u) << "the rest of the answer was waiting";
}

}  // namespace
}  // namespace profd
