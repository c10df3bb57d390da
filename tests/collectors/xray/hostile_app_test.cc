// Hostile apps and a real daemon: the session of each ends with a reason of its own, and another
// app loses nothing.

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>

#include "daemon/xray/memory.h"
#include "tests/children.h"
#include "tests/collectors/xray/instrumented_app.h"
#include "tests/e2e/harness.h"
#include "tests/formats/readers.h"

namespace profd::e2e {
namespace {

using test::InstrumentedApp;
using ::testing::AnyOf;
using ::testing::HasSubstr;

struct Way {
  const char* name;
  const char* said;  // by start, or by stop if start succeeds
};

const Way kWays[] = {
    {"garbage", "invalid answer"},
    {"long", "invalid answer"},
    {"hang-up", "has ended"},
    {"no-memory-sent", "invalid answer"},
    {"many-descriptors", "invalid answer"},
    {"device", "not a memfd"},
    {"unsealed", "not sealed"},
    {"other-functions", "does not have the functions"},
    {"elsewhere", "loaded"},
    {"long-buffer", "longer than its slot"},
    {"claims-too-much", "invalid answer"},
    {"never-patched", "does not confirm"},
    {"silence", "it may be stopped"},
    {"talks-first", "invalid answer"},
};

// Apps that violate the protocol after they have written calls.
struct LateWay {
  const char* name;
  const char* reason;   // in status and session.json
  const char* said;     // in the log
  const char* printed;  // by stop
};

const LateWay kLateWays[] = {
    {"late-garbage", "app_nonsense", "invalid answer", "the app sent an invalid answer"},
    {"late-unasked", "app_nonsense", "unexpected answer", "the app sent an invalid answer"},
    {"late-ended", "app_nonsense", "unexpected answer", "the app sent an invalid answer"},
    {"late-descriptors", "app_nonsense", "invalid answer", "the app sent an invalid answer"},
    {"late-flood", "app_flood", "more answers than", "the app sent more answers than"},
    {"late-memory", "app_memory", "longer than its slot", "the app has invalid shared memory"},
    {"late-hang-up", "app_gone", "has ended", "the app has ended"},
    {"late-silence", "still_patched", "does not confirm",
     "the app did not confirm in time that its functions are unpatched"},
};

class HostileAppTest : public testing::Test {
 protected:
  std::filesystem::path socket() const { return daemon_.socket().parent_path() / "app.sock"; }

  Ended start(const InstrumentedApp& app) {
    Ended started;
    eventually([&] {
      started = daemon_.profctl({"start", "--event", "xray", "--pid", std::to_string(app.pid())});
      return started.err.find("has not connected") == std::string::npos;
    });
    started.out = started.out.substr(0, started.out.find('\n'));
    return started;
  }

  Daemon daemon_;
  TemporaryDirectory directory_;
};

TEST_F(HostileAppTest, AnAppThatSendsWrongAnswersEndsOnlyItsOwnSession) {
  InstrumentedApp honest(socket(), {"--rounds", "20000"});
  const Ended good = start(honest);
  ASSERT_EQ(good.status, 0) << good.err;
  for (const Way& way : kWays) {
    SCOPED_TRACE(way.name);
    InstrumentedApp hostile(socket(), {way.name}, "xray_hostile");
    Ended ended = start(hostile);
    if (ended.status == 0) {
      ended = daemon_.profctl({"stop", ended.out, "-o", directory_.path() / "never"});
    }
    EXPECT_NE(ended.status, 0);
    EXPECT_THAT(ended.err, HasSubstr(way.said));
    EXPECT_FALSE(std::filesystem::exists(directory_.path() / "never"));
  }
  honest.go();
  const std::uint64_t rounds = honest.rounds_done();
  const std::filesystem::path output = directory_.path() / "out";
  ASSERT_EQ(daemon_.profctl({"stop", good.out, "-o", output}).status, 0);
  const std::string name = "xray_calls." + std::to_string(honest.pid()) + ".xray-calls.prof";
  EXPECT_EQ(test::go_report(output / name).rows.at("leaf").flat, 8 * rounds);
  EXPECT_TRUE(daemon_.process().running());
}

TEST_F(HostileAppTest, ALaterProtocolViolationEndsTheSessionWithAReasonAndKeepsItsCalls) {
  CountsByReason expected;
  for (const LateWay& way : kLateWays) {
    SCOPED_TRACE(way.name);
    InstrumentedApp hostile(socket(), {way.name}, "xray_hostile");
    const Ended started = start(hostile);
    ASSERT_EQ(started.status, 0) << started.err;
    const std::filesystem::path output = directory_.path() / way.name;
    if (std::string(way.name) != "late-silence") {
      ++expected[way.reason];
      EXPECT_TRUE(eventually([&] { return daemon_.status().xray.ended == expected; }));
    } else {
      ASSERT_TRUE(eventually(
          [&] { return daemon_.profctl({"list"}).out.find(" 200 ") != std::string::npos; }));
    }
    const Ended stopped = daemon_.profctl({"stop", started.out, "-o", output});
    ASSERT_EQ(stopped.status, 0) << stopped.err;
    EXPECT_THAT(stopped.err, HasSubstr(way.printed));
    const SessionSummary summary = read_summary(output);
    ASSERT_TRUE(summary.xray);
    EXPECT_TRUE(summary.xray->contains(way.reason));
    EXPECT_EQ(summary.xray->at("entries"), 100);
    EXPECT_THAT(daemon_.process().err(), HasSubstr(std::string(way.reason) + ": "));
    EXPECT_THAT(daemon_.process().err(), HasSubstr(way.said));
  }
  ++expected["still_patched"];
  EXPECT_EQ(daemon_.status().xray.ended, expected);
}

TEST_F(HostileAppTest, AnAppThatOverwritesItsMemoryOrFloodsHarmsNothingElse) {
  for (const char* way : {"scribbles", "floods"}) {
    SCOPED_TRACE(way);
    InstrumentedApp hostile(socket(), {way}, "xray_hostile");
    const Ended started = start(hostile);
    ::usleep(500'000);
    if (started.status == 0) {
      (void)daemon_.profctl({"stop", started.out, "-o", directory_.path() / way});
    }
    InstrumentedApp honest(socket(), {"--rounds", "1000"});
    const Ended good = start(honest);
    ASSERT_EQ(good.status, 0) << good.err;
    honest.go();
    const std::uint64_t rounds = honest.rounds_done();
    const std::filesystem::path output = directory_.path() / (std::string(way) + "-honest");
    ASSERT_EQ(daemon_.profctl({"stop", good.out, "-o", output}).status, 0);
    const std::string name = "xray_calls." + std::to_string(honest.pid()) + ".xray-calls.prof";
    EXPECT_EQ(test::go_report(output / name).rows.at("leaf").flat, 8 * rounds);
  }
}

TEST_F(HostileAppTest, AFollowerThatDiesEndsItsSessionWithAReason) {
  InstrumentedApp app(socket(), {"--forever"});
  const Ended started = start(app);
  ASSERT_EQ(started.status, 0) << started.err;
  const pid_t follower = test::child_called("profd-follower", daemon_.process().pid());
  ASSERT_GT(follower, 0);
  ASSERT_EQ(::kill(follower, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] {
    return daemon_.status().xray.ended == CountsByReason{{"follower_died", 1}};
  }));
  const Ended stopped = daemon_.profctl({"stop", started.out, "-o", directory_.path() / "never"});
  EXPECT_NE(stopped.status, 0);
  EXPECT_THAT(stopped.err, HasSubstr("died"));
}

// The sum of the peak resident memory of all processes that the daemon has started.
std::uint64_t peak_of_children(pid_t daemon) {
  std::uint64_t sum = 0;
  for (const pid_t child : test::children_of(daemon)) {
    std::ifstream status("/proc/" + std::to_string(child) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmHWM:")) sum += std::stoull(line.substr(6)) * 1024;
    }
  }
  return sum;
}

// The address sanitizer has memory around each allocation, and a shadow of it.
#ifdef __SANITIZE_ADDRESS__
constexpr std::uint64_t kMemoryFactor = 3;
#else
constexpr std::uint64_t kMemoryFactor = 1;
#endif

// Each app has several times the stacks that fit, in 13 MiB of records.
TEST_F(HostileAppTest, AppsThatNeedTooMuchMemoryLoseStacksAndAreStillRecorded) {
  std::vector<std::unique_ptr<InstrumentedApp>> apps;
  std::vector<std::string> sessions;
  for (std::size_t i = 0; i < kMaxXraySessions; ++i) {
    apps.push_back(std::make_unique<InstrumentedApp>(
        socket(), std::vector<std::string>{"late-growth"}, "xray_hostile"));
    const Ended started = start(*apps.back());
    ASSERT_EQ(started.status, 0) << started.err;
    sessions.push_back(started.out);
  }
  const InstrumentedApp one_more(socket(), {});
  const Ended refused = start(one_more);
  EXPECT_THAT(refused.err, HasSubstr("16 sessions record calls already"));
  for (const std::string& session : sessions) {
    EXPECT_EQ(daemon_.profctl({"dump", session, "-o", directory_.path() / "dump"}).status, 0);
    std::filesystem::remove_all(directory_.path() / "dump");
  }
  const std::uint64_t peak = peak_of_children(daemon_.process().pid());
  RecordProperty("peak_mib", static_cast<int>(peak >> 20));
  EXPECT_LT(peak, kMemoryFactor * kXrayMemoryBytes);
  for (const std::string& session : sessions) {
    const std::filesystem::path output = directory_.path() / session;
    const Ended stopped = daemon_.profctl({"stop", session, "-o", output});
    ASSERT_EQ(stopped.status, 0) << stopped.err;
    const SessionSummary summary = read_summary(output);
    ASSERT_TRUE(summary.xray);
    EXPECT_GT(summary.xray->at("records"), 1'600'000);
    EXPECT_TRUE(summary.xray->contains("too_many_stacks"));
    EXPECT_FALSE(summary.xray->contains("out_of_memory"));
    std::filesystem::remove_all(output);
  }
  EXPECT_TRUE(daemon_.process().running());
}

// One user's connections are limited, and none of them is read before a session wants it.
TEST_F(HostileAppTest, ManyConnectionsAndUnreadPacketsDoNotAffectOtherApps) {
  std::vector<UniqueFd> connections;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, socket().c_str());
  for (int i = 0; i < 500; ++i) {
    UniqueFd connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    for (int packet = 0; packet < 20; ++packet) {
      (void)::send(connection.get(), &address, sizeof address, MSG_NOSIGNAL);
    }
    connections.push_back(std::move(connection));
  }
  InstrumentedApp honest(socket(), {});
  const Ended good = start(honest);
  EXPECT_EQ(good.status, 0) << good.err;
}

// A process that uses the socket of another process is still identified as itself.
TEST_F(HostileAppTest, TheCredentialsOfTheConnectionIdentifyTheApp) {
  InstrumentedApp hostile(socket(), {"garbage"}, "xray_hostile");
  const InstrumentedApp other(socket().string() + ".other", {});
  const Ended refused =
      daemon_.profctl({"start", "--event", "xray", "--pid", std::to_string(other.pid())});
  EXPECT_EQ(refused.status, 4);
  EXPECT_THAT(refused.err, HasSubstr("has not connected"));
}

}  // namespace
}  // namespace profd::e2e
