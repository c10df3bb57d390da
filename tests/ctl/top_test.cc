// `profctl top` without a terminal, with a daemon that gives the same part again and again.

#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>

#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "tests/ctl/profctl_fixture.h"
#include "tests/ctl/views/block_profile.h"
#include "tests/ctl/views/random_profile.h"

namespace profd {
namespace {

namespace json = boost::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class TopCommandTest : public test::ProfctlTest {
 protected:
  TopCommandTest() {
    random_.add(50);
    service_.on_take = [this]() -> Result<std::string> {
      ++takes_;
      if (has_ended_) return fail(ErrorCode::kInvalidArgument, "session 5f2c01ab has ended");
      return part_;
    };
    part_ = part_of(random_);
  }

  static std::string part_of(const test::RandomProfile& random) {
    return part_of(random.profile(), "cpu");
  }
  static std::string part_of(const PprofProfile& samples, const std::string& event) {
    PprofProfile profile = *decode_pprof(encode_pprof_gzip(samples));
    SessionSummary summary;
    summary.session = "5f2c01ab";
    summary.started = "2026-01-02T03:04:05Z";
    summary.event = event;
    summary.ledger = {.taken = 3, .written = 3, .lost = {}};
    profile.own_data = to_json(summary);
    return encode_pprof_gzip(profile);
  }

  Ran top(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"top", "-d", "100ms"});
    return run(arguments);
  }
  [[nodiscard]] std::vector<std::string> calls_of(const std::string& call) const {
    std::vector<std::string> calls;
    std::ranges::copy_if(service_.calls, std::back_inserter(calls),
                         [&](const std::string& one) { return one.starts_with(call); });
    return calls;
  }

  test::RandomProfile random_{3};
  std::string part_;
  int takes_ = 0;
  bool has_ended_ = false;
};

TEST_F(TopCommandTest, ABatchTakesAndEndsItsSession) {
  const Ran ran = top({"-b", "-n", "2"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(takes_, 3) << "the last one leaves little for the stop";
  EXPECT_THAT(ran.out, HasSubstr("PID  COMMAND"));
  EXPECT_THAT(ran.out, HasSubstr("ns::work_"));
  EXPECT_THAT(calls_of("stop"), ElementsAre("stop 5f2c01ab"));
  EXPECT_EQ(service_.calls.back(), "remove 5f2c01ab");
  ASSERT_EQ(service_.started.size(), 1U);
  EXPECT_TRUE(service_.started[0].target.all);
  EXPECT_GE(service_.started[0].lease_ms, 30'000U) << "a top that is killed samples no longer";
}

TEST_F(TopCommandTest, JsonIsOneLineForEachRefresh) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"-b", "-n", "3", "--json"}, {"--json", "-n3"}}) {
    const Ran ran = top(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(std::ranges::count(ran.out, '\n'), 3);
    const json::value first = json::parse(ran.out.substr(0, ran.out.find('\n')));
    EXPECT_EQ(first.at("ledger").at("difference").as_int64(), 0);
    EXPECT_EQ(first.at("processes").as_array().size(), 6U);
  }
}

// Finds a pool that hides what waits for a disk, and one that is hidden without a word or against
// the caller's wish.
TEST_F(TopCommandTest, IdleThreadsAreLeftOutAsInAReport) {
  test::BlockProfile blocks("off_cpu", 2 * test::kSecond);
  blocks.add({"k:ep_poll", "epoll_wait", "worker_loop"},
             {.state = "S", .wait = "epoll", .is_ongoing = true}, 8, 16 * test::kSecond);
  blocks.add({"k:io_schedule", "pread", "read_page"}, {.state = "D", .wait = "disk"}, 3,
             90 * test::kMs);
  part_ = part_of(blocks.profile(), "off-cpu");
  const Ran ran = top({"-b", "-n1", "-e", "off-cpu"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("read_page"));
  EXPECT_THAT(ran.out, Not(HasSubstr("worker_loop")));
  EXPECT_THAT(ran.out, HasSubstr("as 8 threads all the time (--idle shows them)"));
  const Ran all = top({"-b", "-n1", "-e", "off-cpu", "--idle"});
  EXPECT_THAT(all.out, HasSubstr("worker_loop"));
  EXPECT_THAT(all.out, Not(HasSubstr("all the time")));
}

TEST_F(TopCommandTest, ATargetIsThatOfTheSession) {
  EXPECT_EQ(top({"-b", "-n1", "-p", "7,8", "-u", "a,b", "--comm", "x", "-e", "page-faults"}).code,
            0);
  const StartRequest& request = service_.started.at(0);
  EXPECT_FALSE(request.target.all);
  EXPECT_THAT(request.target.pids, ElementsAre(7U, 8U));
  EXPECT_THAT(request.target.units, ElementsAre("a.service", "b.service"));
  EXPECT_EQ(request.event, "page-faults");
}

TEST_F(TopCommandTest, ATargetThatEndsGivesItsRestAndEndsABatch) {
  has_ended_ = true;
  service_.files["profile.pb.gz"] = part_;
  service_.result.named_profile = ResultFile{"profile.pb.gz", part_.size()};
  const Ran ran = top({"-b"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("ns::work_"));
  EXPECT_THAT(calls_of("stop"), ElementsAre("stop 5f2c01ab")) << "once";
}

TEST_F(TopCommandTest, ATargetWithoutAnySampleIsNotFound) {
  const std::string part = part_;
  part_ = part_of(test::RandomProfile(3));
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--comm", "nosuch"}, {"--comm", "nosuch", "--json"}}) {
    std::vector<std::string> arguments{"-b", "-n2"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Ran ran = top(arguments);
    EXPECT_EQ(ran.code, kExitNotFound);
    EXPECT_THAT(ran.err, HasSubstr("no sample is of comm nosuch"));
  }
  EXPECT_EQ(top({"-b", "-n1"}).code, 0) << "an idle host";
  EXPECT_EQ(top({"-b", "-n1", "-a"}).code, 0);
  // One sample is enough.
  takes_ = 0;
  service_.on_take = [this, &part]() -> Result<std::string> {
    return ++takes_ == 2 ? part : part_;
  };
  EXPECT_EQ(top({"-b", "-n3", "--comm", "program1"}).code, 0);
}

TEST_F(TopCommandTest, AnErrorEndsTheSessionToo) {
  service_.on_take = [] {
    return Result<std::string>(fail(ErrorCode::kBusy, "another take is under way", "try again"));
  };
  const Ran ran = top({"-b"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err, "profctl: another take is under way\nhint: try again\n");
  EXPECT_THAT(calls_of("stop"), ElementsAre("stop 5f2c01ab"));
}

TEST_F(TopCommandTest, AnUnprivilegedUserSeesItsOwnProcesses) {
  service_.on_call = [this] {
    if (service_.calls.back() != "start") return;
    service_.error.reset();
    if (calls_of("start").size() % 2 == 1) {
      service_.error = fail(ErrorCode::kPermissionDenied, "only root");
    }
  };
  const Ran ran = top({"-b", "-n1"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, StartsWith("profctl: only your own processes are shown"));
  EXPECT_EQ(service_.started.at(0).target.uids.size(), 1U);
  EXPECT_EQ(top({"-b", "-n1", "-a"}).code, kExitNotPermitted) << "where all were asked for";
}

TEST_F(TopCommandTest, ASignalEndsTheSession) {
  for (const auto& [signal, status] : std::vector<std::pair<int, int>>{
           {SIGINT, 0}, {SIGTERM, 128 + SIGTERM}, {SIGHUP, 128 + SIGHUP}}) {
    service_.calls.clear();
    const pthread_t self = ::pthread_self();
    const int number = signal;
    service_.on_call = [this, self, number] {
      if (service_.calls.back().starts_with("take")) ::pthread_kill(self, number);
    };
    EXPECT_EQ(top({"-b"}).code, status);
    EXPECT_THAT(calls_of("stop"), ElementsAre("stop 5f2c01ab"));
  }
}

TEST_F(TopCommandTest, OptionsThatMakeNoSenseAreRefused) {
  const std::pair<std::vector<std::string>, const char*> table[] = {
      {{"top", "-d", "1ms"}, "--delay"},
      {{"top", "-n", "0"}, "--iterations"},
      {{"top", "-e", "xray", "-p", "1"}, "calls are not shown live"}};
  for (const auto& [arguments, text] : table) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, kExitUsage);
    EXPECT_THAT(ran.err, HasSubstr(text));
  }
}

TEST_F(TopCommandTest, AMalformedPartIsAnError) {
  for (const std::string& part : {std::string(), std::string("no profile"), part_.substr(0, 100)}) {
    part_ = part;
    EXPECT_EQ(top({"-b", "-n1"}).code, 1) << part.size();
  }
}

}  // namespace
}  // namespace profd
