// A user who has many results written at once: root's session is not delayed, and the user stays
// within its part of the disk.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "formats/api/error_json.h"
#include "tests/daemon/control/raw_client.h"
#include "tests/e2e/harness.h"
#include "tests/hostile/attack.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;
using std::chrono_literals::operator""s;

constexpr int kSessionsOfUser = 4;

std::size_t files_in(const RawAnswer& result) {
  std::size_t files = 0;
  for (std::size_t at = 0; (at = result.body.find("\"bytes\"", at)) != std::string::npos; ++at) {
    ++files;
  }
  return files;
}

class HostileResultsTest : public ::testing::Test {
 protected:
  void open(const std::string& results_max_bytes) {
    std::ofstream(config_) << "results_max_bytes = \"" << results_max_bytes << "\"\n";
    Daemon::Options options;
    options.arguments = {"--config", config_};
    daemon_ = std::make_unique<Daemon>(std::move(options));
  }

  RawAnswer ask(const char* method, const std::string& path, const std::string& body = {}) const {
    RawClient client;
    client.connect_as(daemon_->socket(), kSomebody, kSomebody);
    return client.ask(method, path, body);
  }

  // As many frequencies as a user may have at once.
  std::vector<std::string> start_sessions() const {
    std::vector<std::string> ids;
    for (int i = 0; i < kSessionsOfUser; ++i) {
      const RawAnswer answer = ask("POST", "/v1/sessions",
                                   "{\"target\":{\"uids\":[" + std::to_string(kSomebody) +
                                       "]},\"frequency\":" + std::to_string(998 + i % 2) + "}");
      EXPECT_EQ(answer.status, 201) << answer.body;
      if (answer.status == 201) ids.push_back(answer.body.substr(answer.body.find(':') + 2, 8));
    }
    return ids;
  }

  // Each session has a profile of each process.
  static void start_many_processes() {
    Process::Options as_user;
    as_user.uid = kSomebody;
    Process storm({workload("storm"), "4"}, as_user);
    EXPECT_EQ(storm.wait().status, 0);
  }

  // All at once.
  std::vector<RawAnswer> stop_all(const std::vector<std::string>& ids) const {
    std::vector<RawAnswer> answers(ids.size());
    std::vector<std::thread> stops;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      stops.emplace_back([&, i] { answers[i] = ask("POST", "/v1/sessions/" + ids[i] + "/stop"); });
    }
    for (std::thread& stop : stops) stop.join();
    return answers;
  }

  // Returns the seconds that it took.
  double record_as_root(int round) const {
    const auto began = SteadyClock::now();
    const fs::path out = directory_.path() / std::to_string(round);
    const Ended ended = daemon_->profctl({"record", "--all", "-d", "1s", "-o", out});
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_TRUE(fs::exists(out / "session.json"));
    return std::chrono::duration<double>(SteadyClock::now() - began).count();
  }

  std::uint64_t bytes_on_disk() const {
    std::uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(daemon_->state() / "results")) {
      std::error_code gone;
      const std::uintmax_t size = entry.file_size(gone);
      if (!gone) bytes += size;
    }
    return bytes;
  }

  TemporaryDirectory directory_;
  fs::path config_ = directory_.path() / "profd.toml";
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(HostileResultsTest, RootsRecordDoesNotWaitForResultsOfAUser) {
  open("1GiB");
  int round = 0;
  const double alone = record_as_root(round++);
  const auto end = SteadyClock::now() + attack_time(8s);
  double slowest = 0;
  std::size_t files = 0;
  do {
    const std::vector<std::string> ids = start_sessions();
    start_many_processes();
    std::vector<RawAnswer> answers;
    std::thread stops([&] { answers = stop_all(ids); });
    slowest = std::max(slowest, record_as_root(round++));
    stops.join();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(answers[i].status, 200) << answers[i].body;
      files += files_in(answers[i]);
      EXPECT_EQ(ask("DELETE", "/v1/results/" + ids[i]).status, 204);
    }
  } while (SteadyClock::now() < end);
  std::printf("root's record -d 1s took %.1f s alone, and %.1f s at most beside %zu files\n", alone,
              slowest, files);
  EXPECT_GT(files, 400U);
  EXPECT_LE(slowest, std::max(5.0, 4 * alone)) << "a build with sanitizers is slower";
}

TEST_F(HostileResultsTest, AUserStaysWithinItsPartOfTheDisk) {
  constexpr std::uint64_t kMaxBytesOfUser = std::uint64_t{512} << 10;  // an eighth
  open("4MiB");
  const std::vector<std::string> ids = start_sessions();
  start_many_processes();
  std::atomic<bool> stopped = false;
  std::uint64_t most = 0;
  std::thread watch([&] {
    while (!stopped) most = std::max(most, bytes_on_disk());
  });
  const std::vector<RawAnswer> answers = stop_all(ids);
  stopped = true;
  watch.join();
  std::uint64_t refused = 0;
  for (const RawAnswer& answer : answers) {
    if (answer.status == 200) continue;
    ++refused;
    EXPECT_EQ(parse_error(answer.body).code, ErrorCode::kTooLarge) << answer.body;
  }
  std::printf("%llu of %zu results were refused; %llu bytes at most\n",
              static_cast<unsigned long long>(refused), ids.size(),
              static_cast<unsigned long long>(most));
  EXPECT_GE(refused, 1U);
  EXPECT_GE(daemon_->status().results_refused, refused);
  EXPECT_LE(most, kMaxBytesOfUser);
  EXPECT_LE(bytes_on_disk(), kMaxBytesOfUser);
}

}  // namespace
}  // namespace profd::e2e
