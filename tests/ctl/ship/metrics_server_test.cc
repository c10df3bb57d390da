// Who is answered at the port of /metrics, and within which limits.

#include "ctl/ship/metrics_server.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "formats/base/unique_fd.h"
#include "tests/ctl/web/web_client.h"

namespace profd {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""min;
using testing::HasSubstr;

class RunningMetrics {
 public:
  explicit RunningMetrics(const MetricsServer::MakeText& make, const MetricsLimits& limits = {})
      : server_(MetricsServer::open({.address = "127.0.0.1", .port = 0}, make, limits).value()),
        stop_(::eventfd(0, EFD_CLOEXEC)),
        thread_([this] { EXPECT_TRUE(server_->run(stop_.get())); }) {}
  RunningMetrics(const RunningMetrics&) = delete;
  RunningMetrics& operator=(const RunningMetrics&) = delete;
  ~RunningMetrics() {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }

  [[nodiscard]] std::string url() const { return server_->url(); }
  [[nodiscard]] std::uint16_t port() const {
    return static_cast<std::uint16_t>(std::stoi(url().substr(url().rfind(':') + 1)));
  }

  // A connection on which these bytes were sent.
  [[nodiscard]] UniqueFd begin(const std::string& bytes) const {
    UniqueFd socket = test::connect_to_port(port());
    const timeval guard{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof(guard));
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    return socket;
  }
  [[nodiscard]] test::WebAnswer send(const std::string& bytes) const {
    const UniqueFd socket = begin(bytes);
    return test::parse_answer(test::read_to_end(socket.get()));
  }
  [[nodiscard]] test::WebAnswer get(const std::string& target = "/metrics") const {
    return send("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
  }

 private:
  std::unique_ptr<MetricsServer> server_;
  UniqueFd stop_;
  std::thread thread_;
};

std::string some_text() { return "profd_up 1\n"; }

TEST(MetricsServerTest, TheTextIsAnswered) {
  const RunningMetrics metrics(some_text);
  EXPECT_EQ(metrics.url(), "http://127.0.0.1:" + std::to_string(metrics.port()) + "/metrics");
  for (const char* target : {"/metrics", "/metrics?x=1"}) {
    const auto answer = metrics.get(target);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
    EXPECT_EQ(answer.body, some_text());
  }
}

TEST(MetricsServerTest, NothingElseIsThere) {
  const RunningMetrics metrics(some_text);
  for (const char* target : {"/", "/metrics/", "/metricsx", "//metrics", "*", "/v1/status"}) {
    EXPECT_EQ(metrics.get(target).status, 404) << target;
  }
  for (const char* method : {"HEAD", "POST", "PUT", "DELETE", "OPTIONS", "BREW"}) {
    const auto answer = metrics.send(std::string(method) + " /metrics HTTP/1.1\r\n\r\n");
    EXPECT_EQ(answer.status, 405) << method;
    EXPECT_EQ(answer.headers.at("Allow"), "GET");
  }
  EXPECT_EQ(metrics.send("nonsense\r\n\r\n").status, 400);
  EXPECT_EQ(metrics.send("GET /metrics HTTP/1.1\r\nx: " + std::string(10'000, 'x')).status, 431);
  EXPECT_EQ(metrics.get().status, 200);
}

TEST(MetricsServerTest, SlowClientsKeepNobodyOut) {
  const RunningMetrics metrics(some_text, {.request = 10min});
  std::vector<UniqueFd> slow;
  for (int i = 0; i < 100; ++i) slow.push_back(metrics.begin("G"));
  EXPECT_EQ(metrics.get().status, 200);
  EXPECT_EQ(test::read_to_end(slow.front().get()), "") << "closed for a later one";
}

TEST(MetricsServerTest, ARequestThatDoesNotEndIsClosed) {
  const RunningMetrics metrics(some_text, {.request = 50ms});
  EXPECT_EQ(metrics.send("GET /metrics HTTP/1.1\r\n").status, 0);
  EXPECT_EQ(metrics.get().status, 200);
}

TEST(MetricsServerTest, AClientThatDoesNotReadDelaysNobody) {
  const std::string large(std::size_t{16} << 20, 'x');
  const RunningMetrics metrics([&] { return large; }, {.send = 10min, .fresh = 10min});
  std::vector<UniqueFd> others;
  for (int i = 0; i < 3; ++i) others.push_back(metrics.begin("GET /metrics HTTP/1.1\r\n\r\n"));
  EXPECT_EQ(metrics.get().body.size(), large.size());
}

TEST(MetricsServerTest, ManyRequestsGetTheSameText) {
  std::atomic<int> made = 0;
  const auto count = [&] { return "n " + std::to_string(++made) + "\n"; };
  {
    const RunningMetrics metrics(count, {.fresh = 10min});
    for (int i = 0; i < 5; ++i) EXPECT_EQ(metrics.get().body, "n 1\n");
  }
  const RunningMetrics metrics(count, {.fresh = 0ms});
  EXPECT_EQ(metrics.get().body, "n 2\n");
  EXPECT_EQ(metrics.get().body, "n 3\n");
}

TEST(MetricsServerTest, ATakenPortIsAnErrorWithAHint) {
  const RunningMetrics metrics(some_text);
  const auto second =
      MetricsServer::open({.address = "127.0.0.1", .port = metrics.port()}, some_text);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kBusy);
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(metrics.port())));
  EXPECT_THAT(second.error().hint, HasSubstr("listen of [metrics]"));
}

TEST(MetricsServerTest, ItKnowsWhetherOtherHostsReachIt) {
  const auto is_public = [](const std::string& address) {
    return MetricsServer::open({.address = address, .port = 0}, some_text).value()->is_public();
  };
  EXPECT_FALSE(is_public("127.0.0.1"));
  EXPECT_FALSE(is_public("127.0.0.2"));
  EXPECT_TRUE(is_public("0.0.0.0"));
}

}  // namespace
}  // namespace profd
