// What does not end `profctl ship`.

#include "ctl/ship/ship_service.h"

#include <sys/eventfd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "ctl/ship/metrics_server.h"
#include "ctl/ship/ship_status.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

using testing::HasSubstr;

class LogLines {
 public:
  void add(const std::string& line) {
    {
      const std::scoped_lock lock(mutex_);
      lines_.push_back(line);
    }
    has_changed_.notify_all();
  }
  // Whether a line with this text comes, or is there.
  [[nodiscard]] bool wait_for(const std::string& text) {
    std::unique_lock lock(mutex_);
    return has_changed_.wait_for(lock, std::chrono::seconds(30), [this, &text] {
      for (const std::string& line : lines_) {
        if (line.find(text) != std::string::npos) return true;
      }
      return false;
    });
  }
  [[nodiscard]] std::vector<std::string> all() {
    const std::scoped_lock lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable has_changed_;
  std::vector<std::string> lines_;
};

class ShipServiceTest : public testing::Test {
 protected:
  ShipServiceTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "ship-service-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~ShipServiceTest() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_;
  UniqueFd stop_{::eventfd(0, EFD_CLOEXEC)};
  LogLines log_;
};

ShipConfig one_endpoint() {
  PyroscopeEndpoint endpoint;
  endpoint.http.name = "a";
  endpoint.http.url = "http://127.0.0.1:9/p";
  endpoint.http.address = parse_http_url(endpoint.http.url).value();
  ShipConfig config;
  config.split.host = "web-1";
  config.pyroscope.push_back(endpoint);
  return config;
}

// Fails where the first start by hand needs a mkdir before it, and where others may read what was
// sent.
TEST_F(ShipServiceTest, TheStateDirectoryIsMadeForItsUserAlone) {
  namespace fs = std::filesystem;
  const Client client(directory_ / "no.sock");
  const auto log = [this](const std::string& line) { log_.add(line); };
  ::eventfd_write(stop_.get(), 1);
  const ShipPlaces places{.state_directory = directory_ / "state",
                          .runtime_directory = directory_ / "run"};
  ASSERT_TRUE(run_ship(one_endpoint(), places, client, stop_.get(), log));
  EXPECT_EQ(fs::status(directory_ / "state").permissions(), fs::perms::owner_all);
  EXPECT_TRUE(run_ship(one_endpoint(), places, client, stop_.get(), log)) << "it is there";

  const ShipPlaces deep{.state_directory = directory_ / "x" / "y",
                        .runtime_directory = directory_ / "run"};
  const auto started = run_ship(one_endpoint(), deep, client, stop_.get(), log);
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("could not make " + deep.state_directory));
  EXPECT_THAT(started.error().hint, HasSubstr("--state-dir DIR"));
}

TEST_F(ShipServiceTest, TheFirstLineOfAnEndpointSaysWhereItSendsAndAsWhich) {
  const Client client(directory_ / "no.sock");
  const ShipPlaces places{.state_directory = directory_, .runtime_directory = directory_ / "run"};
  ::eventfd_write(stop_.get(), 1);
  ASSERT_TRUE(run_ship(one_endpoint(), places, client, stop_.get(),
                       [this](const std::string& line) { log_.add(line); }));
  EXPECT_THAT(log_.all(),
              testing::ElementsAre(
                  "endpoint a: sends the windows to http://127.0.0.1:9/p as the host web-1"));
  const auto status = read_ship_status(places.runtime_directory, std::chrono::system_clock::now());
  ASSERT_TRUE(status);
  ASSERT_THAT(status->endpoints, testing::SizeIs(1));
  EXPECT_EQ(status->endpoints[0].name, "a");
  EXPECT_EQ(status->endpoints[0].kind, "pyroscope");
  EXPECT_EQ(status->endpoints[0].url, "http://127.0.0.1:9/p");
}

std::uint16_t port_of(const MetricsServer& server) {
  const std::string url = server.url();
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

TEST_F(ShipServiceTest, ATakenPortOfMetricsIsTriedAgainAndEndsNothing) {
  const auto no_text = [] { return std::string(); };
  auto other = MetricsServer::open({.address = "127.0.0.1", .port = 0}, no_text).value();
  ShipConfig config;
  config.metrics = MetricsListen{.address = "127.0.0.1", .port = port_of(*other)};
  const ShipPlaces places{.state_directory = directory_, .runtime_directory = directory_ / "run"};
  const Client client(directory_ / "no.sock");
  auto running = std::async(std::launch::async, [&] {
    return run_ship(
        config, places, client, stop_.get(), [this](const std::string& line) { log_.add(line); },
        std::chrono::milliseconds(10));
  });
  EXPECT_TRUE(log_.wait_for("no metrics are served"));
  other.reset();
  EXPECT_TRUE(log_.wait_for("metrics are served at http://127.0.0.1:"));
  ::eventfd_write(stop_.get(), 1);
  EXPECT_TRUE(running.get());
  EXPECT_THAT(log_.all(), testing::SizeIs(2)) << "a failure that lasts is logged once";
}

}  // namespace
}  // namespace profd
