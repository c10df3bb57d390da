// A user whose apps leave descriptors in app.sock whose close takes long, and who connects again
// and again: root is answered, others' apps are recorded, and no descriptor stays.

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "tests/children.h"
#include "tests/collectors/xray/instrumented_app.h"
#include "tests/daemon/control/raw_client.h"
#include "tests/e2e/harness.h"
#include "tests/formats/readers.h"
#include "tests/hostile/attack.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;
using test::InstrumentedApp;

// The daemon may have more of these than at its start without a fault: those of children that
// start, and the files of programs that the host runs meanwhile. The attack sends thousands.
constexpr std::size_t kOthers = 16;

std::size_t descriptors_of(const std::string& pid) {
  std::error_code gone;
  const auto entries = fs::directory_iterator("/proc/" + pid + "/fd", gone);
  return gone ? 0 : static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

class HostileAppDescriptorsTest : public testing::Test {
 protected:
  [[nodiscard]] fs::path socket(const char* name) const {
    return daemon_.socket().parent_path() / name;
  }

  // Of the daemon and of its children.
  std::size_t descriptors() {
    const pid_t daemon = daemon_.process().pid();
    std::size_t sum = descriptors_of(std::to_string(daemon));
    for (const pid_t child : test::children_of(daemon)) {
      sum += descriptors_of(std::to_string(child));
    }
    return sum;
  }

  void watch_daemon() {
    ask_as_root(daemon_);
    most_ = std::max(most_, descriptors_of(std::to_string(daemon_.process().pid())));
  }

  // The app may have to connect again.
  std::string start(const InstrumentedApp& app) {
    Ended started;
    EXPECT_TRUE(eventually([&] {
      started = daemon_.profctl({"start", "--event", "xray", "--pid", std::to_string(app.pid())});
      return started.status == 0;
    })) << started.err;
    return first_line(started.out);
  }

  void expect_all_calls(InstrumentedApp& app, const std::string& session) {
    app.go();
    const std::uint64_t rounds = app.rounds_done();
    const fs::path output = directory_.path() / session;
    const Ended stopped = daemon_.profctl({"stop", session, "-o", output});
    ASSERT_EQ(stopped.status, 0) << stopped.err;
    const std::string name = "xray_calls." + std::to_string(app.pid()) + ".xray-calls.prof";
    EXPECT_EQ(test::go_report(output / name).rows.at("leaf").flat, 8 * rounds);
  }

  Daemon daemon_;
  TemporaryDirectory directory_;
  std::size_t most_ = 0;  // descriptors of the daemon
};

TEST_F(HostileAppDescriptorsTest, DelayNeitherRootNorTheAppsOfOthers) {
  watch_daemon();
  const std::size_t before = descriptors();
  const std::size_t of_daemon = std::exchange(most_, 0);
  const auto end = Clock::now() + attack_time(4s);
  {
    InstrumentedApp honest(socket("app.sock"), {"--rounds", "1000"});
    const std::string session = start(honest);
    InstrumentedApp idle(socket("app.sock"), {"--rounds", "1000"});
    Process::Options as_user;
    as_user.uid = kSomebody;
    do {
      Process attack({APP_DESCRIPTORS, socket("app.sock"), "3000", "4"}, as_user);
      const auto limit = Clock::now() + 60s;
      while (attack.out().find("closed") == std::string::npos && Clock::now() < limit) {
        watch_daemon();
      }
      EXPECT_EQ(attack.out(), "sent\nclosed\n") << attack.err();
      EXPECT_TRUE(eventually([&] {
        watch_daemon();
        return daemon_.status().xray.closers_replaced > 0;
      }));
    } while (Clock::now() < end);
    expect_all_calls(honest, session);
    expect_all_calls(idle, start(idle));
  }
  EXPECT_EQ(daemon_.status().xray.doors_replaced, 0U);
  EXPECT_LE(most_, of_daemon + 80) << "a descriptor for each app of the user, and some";
  std::size_t after = 0;
  EXPECT_TRUE(eventually([&] { return (after = descriptors()) <= before + kOthers; }))
      << before << " " << after;
  EXPECT_TRUE(eventually([&] { return daemon_.status().xray.doors_stuck == 0; }));
}

}  // namespace
}  // namespace profd::e2e
