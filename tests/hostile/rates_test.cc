// Users who hold many rates and ask for more: the windows of continuous mode cover all the time.

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "daemon/history/window_file.h"
#include "formats/api/error_json.h"
#include "formats/api/status_info.h"
#include "tests/daemon/control/raw_client.h"
#include "tests/e2e/harness.h"
#include "tests/hostile/attack.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

constexpr int kRatesOfOne = 2;
constexpr uid_t kThird = kNobody - 1;

std::string start_body(uid_t uid, int frequency) {
  return "{\"target\":{\"uids\":[" + std::to_string(uid) +
         "]},\"frequency\":" + std::to_string(frequency) + "}";
}

// The seconds that the windows on the disk cover, and how many windows these are.
struct Coverage {
  double seconds = 0;
  std::size_t windows = 0;
};

Coverage coverage_of(const fs::path& directory) {
  Coverage coverage;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().stem().stem();
    if (!is_window_name(name)) continue;
    const auto window = WindowFile::open(directory, name);
    EXPECT_TRUE(window) << name << ": " << window.error().message;
    if (!window) continue;
    coverage.seconds += window->summary().seconds;
    ++coverage.windows;
  }
  return coverage;
}

class HostileRatesTest : public ::testing::Test {
 protected:
  HostileRatesTest() {
    std::ofstream(config_) << "[continuous]\nenabled = true\nwindow = \"5s\"\nfrequency = 97\n";
    start();
  }

  void start(const Process::Options& process = {}) {
    daemon_.reset();
    daemon_ = std::make_unique<Daemon>(
        Daemon::Options{.arguments = {"--config", config_}, .process = process});
  }

  RawAnswer ask(uid_t uid, const std::string& path, const std::string& body) const {
    RawClient client;
    client.connect_as(daemon_->socket(), uid, uid);
    return client.ask("POST", path, body);
  }

  // Without profctl, which other programs and the ticks keep from the CPU.
  RawAnswer get(const std::string& path) const {
    return RawClient(daemon_->socket()).ask("GET", path, "");
  }

  TemporaryDirectory directory_;
  fs::path config_ = directory_.path() / "profd.toml";
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(HostileRatesTest, NoStartEndsAWindow) {
  const auto began = Clock::now();
  for (int i = 0; i < kRatesOfOne; ++i) {
    ASSERT_EQ(ask(kSomebody, "/v1/sessions", start_body(kSomebody, 900 + i)).status, 201);
  }
  ASSERT_EQ(ask(kThird, "/v1/sessions", start_body(kThird, 950)).status, 201);
  const auto end = began + attack_time(12s);
  int busy = 0;
  for (int i = 0; Clock::now() < end; ++i) {
    const uid_t user = i % 2 == 0 ? kNobody : kSomebody;
    const RawAnswer answer = ask(user, "/v1/sessions", start_body(user, 500 + i % 400));
    EXPECT_EQ(parse_error(answer.body).code, ErrorCode::kBusy) << answer.body;
    ++busy;
    std::this_thread::sleep_for(300ms);
  }
  EXPECT_EQ(ask(kNobody, "/v1/sessions", start_body(kNobody, 99)).status, 201) << "the default";
  const double lasted = std::chrono::duration<double>(Clock::now() - began).count();
  EXPECT_EQ(daemon_->stop(SIGTERM).status, 0);
  const Coverage coverage = coverage_of(daemon_->state() / "windows");
  std::printf("%zu windows cover %.1f of %.1f s beside %d starts\n", coverage.windows,
              coverage.seconds, lasted, busy);
  EXPECT_GE(coverage.seconds, 0.9 * lasted);
  EXPECT_LE(static_cast<double>(coverage.windows), lasted / 5 + 2);
}

// Each start succeeds, and its session ends at once.
TEST_F(HostileRatesTest, NoSuccessfulStartEndsAWindow) {
  const auto began = Clock::now();
  const auto end = began + attack_time(7s);
  int started = 0;
  for (int i = 0; Clock::now() < end; ++i) {
    const RawAnswer answer = ask(kNobody, "/v1/sessions", start_body(kNobody, 500 + i % 400));
    ASSERT_EQ(answer.status, 201) << answer.body;
    ++started;
    const std::string id = answer.body.substr(answer.body.find(':') + 2, 8);
    EXPECT_EQ(ask(kNobody, "/v1/sessions/" + id + "/stop", "").status, 200);
    RawClient client;
    client.connect_as(daemon_->socket(), kNobody, kNobody);
    EXPECT_EQ(client.ask("DELETE", "/v1/results/" + id).status, 204);
  }
  const double lasted = std::chrono::duration<double>(Clock::now() - began).count();
  EXPECT_EQ(daemon_->stop(SIGTERM).status, 0);
  const Coverage coverage = coverage_of(daemon_->state() / "windows");
  std::printf("%zu windows cover %.1f of %.1f s beside %d sessions\n", coverage.windows,
              coverage.seconds, lasted, started);
  EXPECT_GT(started, 0);
  EXPECT_GE(coverage.seconds, 0.9 * lasted);
  EXPECT_LE(static_cast<double>(coverage.windows), lasted / 5 + 2);
}

// More samples than the daemon can take: the rest is lost and counted, and requests are answered.
// The ticks take most of the time of both CPUs, and the stall monitor takes theirs for the io
// thread's.
TEST_F(HostileRatesTest, ASessionOfTheHighestFrequencyEndsInTime) {
  Process::Options without_monitor;
  without_monitor.environment["PROFD_STALL_MS"] = "";
  start(without_monitor);
  const Process busy({workload("shares"), "600", "4"});
  Process::Options options;
  options.environment["PROFD_SOCKET"] = daemon_->socket();
  Process record(daemon_->profctl_command({"record", "-a", "-F", "100000", "-d", "2s", "-o",
                                           directory_.path() / "x.pb.gz"}),
                 options);
  const auto began = Clock::now();
  auto longest = Clock::duration::zero();
  while (record.running()) {
    const auto asked = Clock::now();
    const auto status = parse_status_info(get("/v1/status").body);
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(status->ledger.difference(), 0);
    longest = std::max(longest, Clock::now() - asked);
    std::this_thread::sleep_for(100ms);
    ASSERT_LT(Clock::now() - began, 60s) << "a session of 2 s";
  }
  const Ended ended = record.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  const auto seconds = [](Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  std::printf("2 s took %.1f s, the longest answer %.2f s\n%s", seconds(Clock::now() - began),
              seconds(longest), ended.err.c_str());
  EXPECT_LT(longest, 5s);
}

}  // namespace
}  // namespace profd::e2e
