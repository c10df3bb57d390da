// Views of off-cpu, runnable and wall: text, JSON and pictures. Expected numbers are those that
// each test puts into its profile.

#include <cstdint>
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/api/session_summary.h"
#include "formats/profile/pprof_writer.h"
#include "tests/ctl/ran.h"
#include "tests/ctl/views/block_profile.h"
#include "tests/ctl/views/flame_file.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace json = boost::json;
using test::BlockProfile;
using test::kMs;
using test::kSecond;
using testing::HasSubstr;
using testing::Not;

class BlockViewsTest : public testing::Test {
 protected:
  std::string write(const BlockProfile& profile, const std::string& name = "a.pb.gz") {
    return scratch_.write(name, encode_pprof_gzip(profile.profile()));
  }
  Ran run(std::vector<std::string> arguments) {
    return run_with_socket(scratch_.path() / "no-socket", std::move(arguments));
  }
  std::string text_of(std::vector<std::string> arguments) {
    const Ran ran = run(std::move(arguments));
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out;
  }
  json::value json_of(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const std::string text = text_of(std::move(arguments));
    return json::parse(text.empty() ? "null" : text);
  }
  // The names of the rows, in their order.
  static std::vector<std::string> names_of_rows(const json::value& report) {
    std::vector<std::string> names;
    for (const json::value& row : report.at("rows").as_array()) {
      names.push_back(json::value_to<std::string>(row.at("name")));
    }
    return names;
  }

  test::ScratchDirectory scratch_;
};

// Seconds off the CPU are no share of a CPU, though the duration is known.
TEST_F(BlockViewsTest, HeadingsSayWhatTheTimesAreOf) {
  struct Case {
    std::string type;
    std::string heading;
    std::string member;
  };
  for (const Case& one :
       {Case{"off_cpu", "1 min: 12 blocks, 3.50 s off the CPU", "off_cpu_ns"},
        Case{"runnable", "1 min: 12 blocks, 3.50 s of waiting for a CPU", "runnable_ns"},
        Case{"wall", "1 min: 12 samples, 3.50 s of wall-clock time", "wall_ns"}}) {
    BlockProfile profile(one.type);
    profile.add({"k:wait", "lock"}, {.state = "D"}, 12, 3500 * kMs);
    const std::string file = write(profile, one.type + ".pb.gz");
    const std::string text = text_of({"report", file});
    EXPECT_THAT(text, HasSubstr(one.heading));
    EXPECT_THAT(text, Not(HasSubstr("of one CPU")));
    const json::value report = json_of({"report", file});
    EXPECT_EQ(report.at("all").at(one.member).as_int64(), 3500 * kMs);
    EXPECT_EQ(report.at("all").at("samples").as_int64(), 12);
    EXPECT_FALSE(report.at("all").as_object().contains("cpu_ns"));
    EXPECT_FALSE(report.at("rows").at(0).as_object().contains("self_cpu_percent"));
  }
}

// The ledger of blocks counts microseconds.
TEST_F(BlockViewsTest, LossesOfBlocksAreTimes) {
  SessionSummary summary;
  summary.event = "off-cpu";
  summary.period_us = 1;
  summary.ledger = {.taken = 4'000'000, .written = 3'500'000, .lost = {{"ring_share", 500'000}}};
  BlockProfile profile;
  profile.add({"lock"}, {.state = "D"}, 12, 3500 * kMs);
  profile.set_own_data(to_json(summary));
  const Ran ran = run({"report", write(profile)});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr("0.50 s of 4.00 s off the CPU were lost, so times are too small: "
                                 "0.50 s ring_share"));
}

TEST_F(BlockViewsTest, ProfilesOfDifferentTimesAreNotMixed) {
  BlockProfile off_cpu;
  off_cpu.add({"lock"}, {.state = "D"}, 1, kSecond);
  BlockProfile wall("wall");
  wall.add({"lock"}, {.state = "D"}, 1, kSecond);
  const std::string first = write(off_cpu, "a.pb.gz");
  const std::string second = write(wall, "b.pb.gz");
  EXPECT_EQ(run({"convert", first, second, "-o", scratch_.path() / "c.folded"}).code, kExitUsage);
  EXPECT_EQ(run({"diff", first, second}).code, kExitUsage);
}

// Three times as much of the same wait is no other share. Finds: a refusal, as times of blocks are
// no part of a CPU.
TEST_F(BlockViewsTest, ADifferenceMayBeInTimeOfOneThread) {
  BlockProfile before;
  before.add({"k:a", "load"}, {.state = "D", .wait = "disk"}, 10, 12 * kSecond);
  BlockProfile after;
  after.add({"k:a", "load"}, {.state = "D", .wait = "disk"}, 10, 36 * kSecond);
  const std::string base = write(before, "a.pb.gz");
  const std::string now = write(after, "b.pb.gz");
  EXPECT_THAT(text_of({"diff", base, now}), HasSubstr("no change"));
  EXPECT_THAT(text_of({"diff", base, now, "--per", "cpu"}),
              testing::ContainsRegex("\\+40.0 % +20.0 % +60.0 % +\\+40.0 % +a"));
}

TEST_F(BlockViewsTest, StatesAndWaitsAreGroups) {
  BlockProfile profile;
  profile.add({"k:a", "f"}, {.state = "S", .wait = "futex"}, 1, 3 * kSecond);
  profile.add({"k:b", "f"}, {.state = "D", .wait = "disk"}, 1, 2 * kSecond);
  profile.add({"k:c", "f"}, {.state = "D", .wait = "page-fault"}, 1, 2 * kSecond);
  profile.add({"k:d", "f"}, {.state = "runnable", .wait = "-"}, 1, kSecond);
  const std::string file = write(profile);
  EXPECT_THAT(names_of_rows(json_of({"report", file, "--by", "state"})),
              testing::ElementsAre("D", "S", "runnable"));
  EXPECT_THAT(names_of_rows(json_of({"report", file, "--by", "wait"})),
              testing::ElementsAre("futex", "disk", "page-fault", "(no wait)"));
  const json::value both = json_of({"report", file, "--by", "state,wait"});
  EXPECT_THAT(names_of_rows(both.at("rows").at(0)), testing::ElementsAre("disk", "page-fault"));
  const json::value tree = json_of({"report", "--tree", file, "--by", "wait"});
  EXPECT_EQ(json::value_to<std::string>(tree.at("nodes").at(0).at("kind")), "label");
}

// A pool of 46 threads in a minute: blocks of 500 ms, and those that had not ended.
void add_pool(BlockProfile& profile) {
  const std::vector<std::string> stack{"k:ep_poll", "epoll_wait", "worker"};
  profile.add(stack, {.state = "S", .wait = "epoll"}, 5400, 2737 * kSecond);
  profile.add(stack, {.state = "S", .wait = "epoll", .is_ongoing = true}, 46, 23 * kSecond);
}

TEST_F(BlockViewsTest, PoolsAreOneLine) {
  BlockProfile profile;
  add_pool(profile);
  // 100,000 short waits, and a stall of 2 x 3 s.
  profile.add({"k:futex_wait", "lock"}, {.state = "S", .wait = "futex"}, 100'000, 3 * kSecond);
  profile.add({"k:futex_wait", "stall"}, {.state = "S", .wait = "futex"}, 2, 6 * kSecond);
  const std::string file = write(profile);
  const std::string text = text_of({"report", file});
  EXPECT_THAT(text, HasSubstr("1 min: 100002 blocks, 9.00 s off the CPU\n"
                              "idle: 46 min, as 46 threads all the time (--idle shows them)\n"));
  EXPECT_THAT(text, HasSubstr("stall"));
  EXPECT_THAT(text, Not(HasSubstr("epoll_wait")));
  EXPECT_THAT(text_of({"report", "--tree", file}), HasSubstr("idle: 46 min"));
  EXPECT_THAT(text_of({"diff", file, file}), HasSubstr("idle: 46 min"));
  const json::value left = json_of({"report", file});
  EXPECT_EQ(left.at("all").at("off_cpu_ns").as_int64(), 9 * kSecond);
  EXPECT_EQ(left.at("idle").at("off_cpu_ns").as_int64(), 2760 * kSecond);
  EXPECT_EQ(left.at("idle").at("samples").as_int64(), 5446);
  const json::value all = json_of({"report", file, "--idle"});
  EXPECT_EQ(all.at("all").at("off_cpu_ns").as_int64(), 2769 * kSecond);
  EXPECT_FALSE(all.as_object().contains("idle"));
}

// Each row is just not idle by one of the terms of the rule, beside one that is.
TEST_F(BlockViewsTest, WhatMayBeTheCauseIsNeverIdle) {
  BlockProfile profile;
  add_pool(profile);
  profile.add({"k:a", "disk_wait"}, {.state = "D", .wait = "disk"}, 2, 60 * kSecond);
  profile.add({"k:b", "socket_wait"}, {.state = "S", .wait = "socket"}, 2, 60 * kSecond);
  profile.add({"k:c", "fault"}, {.state = "D", .wait = "page-fault"}, 2, 60 * kSecond);
  profile.add({"k:d", "short_waits"}, {.state = "S", .wait = "futex"}, 601, 60 * kSecond);
  profile.add({"k:e", "half"}, {.state = "S", .wait = "futex"}, 2, 30 * kSecond - 1);
  profile.add({"k:f", "killable"}, {.state = "D", .wait = "futex"}, 2, 60 * kSecond);
  profile.add({"k:g", "long_waits"}, {.state = "S", .wait = "futex"}, 600, 60 * kSecond);
  profile.add({"k:h", "exactly_half"}, {.state = "S", .wait = "sleep"}, 2, 30 * kSecond);
  const std::string text = text_of({"report", "--all", write(profile)});
  for (const char* const shown :
       {"disk_wait", "socket_wait", "fault", "short_waits", "half", "killable"}) {
    EXPECT_THAT(text, HasSubstr(shown));
  }
  EXPECT_THAT(text, Not(HasSubstr("long_waits")));
  EXPECT_THAT(text, Not(HasSubstr("exactly_half")));
}

// 50 threads that wait in turn for one lock have the time of a pool, and its long waits: what is
// behind a lock is known by its name alone. Finds: a rule by waits and times only, and one that
// takes any function of a mutex or lock for one that waits for it.
TEST_F(BlockViewsTest, AContendedLockIsNotIdle) {
  BlockProfile profile;
  add_pool(profile);
  const test::BlockLabels labels{.state = "S", .wait = "futex"};
  for (const char* const lock :
       {"__lll_lock_wait", "___pthread_mutex_lock", "pthread_rwlock_wrlock",
        "std::sys::sync::mutex::futex::Mutex::lock_contended",
        "ObjectMonitor::enter(JavaThread*)"}) {
    profile.add({"k:futex_do_wait", lock, "request_of_" + std::string(lock, 3)}, labels, 2000,
                3000 * kSecond);
  }
  profile.add({"k:futex_lock_pi", "syscall", "request_of_pi"}, labels, 2000, 3000 * kSecond);
  profile.add({"k:futex_do_wait", "pthread_cond_wait", "pool_loop"}, labels, 2000, 3000 * kSecond);
  profile.add({"k:futex_do_wait", "park", "BlockingQueue::take"}, labels, 2000, 3000 * kSecond);
  const std::string text = text_of({"report", "--all", write(profile)});
  for (const char* const shown : {"request_of___l", "request_of____", "request_of_pth",
                                  "request_of_std", "request_of_Obj", "request_of_pi"}) {
    EXPECT_THAT(text, HasSubstr(shown));
  }
  EXPECT_THAT(text, Not(HasSubstr("pool_loop")));
  EXPECT_THAT(text, Not(HasSubstr("BlockingQueue")));
}

TEST_F(BlockViewsTest, IdleThreadsAreShownWhereThereIsNothingElse) {
  BlockProfile profile;
  add_pool(profile);
  const std::string text = text_of({"report", write(profile)});
  EXPECT_THAT(text, HasSubstr("epoll_wait"));
  EXPECT_THAT(text, Not(HasSubstr("idle:")));
}

// Finds: rows by the mean, which is 23 us where the stall is; sums of longest blocks; and callers
// above what waits. Both files have a row of the stack of the stall.
TEST_F(BlockViewsTest, AStallAmongShortWaitsComesFirstOnRequest) {
  BlockProfile profile;
  const test::BlockLabels labels{.state = "S", .wait = "futex"};
  profile.add({"k:futex_wait", "lock"}, labels, 1'000'001, 23 * kSecond, 3 * kSecond);
  profile.add({"k:pipe_read", "read_all"}, {.state = "S", .wait = "pipe"}, 2, 2 * kSecond, kSecond);
  const std::string file = write(profile);
  EXPECT_THAT(names_of_rows(json_of({"report", file, "--by", "wait", "--sort", "longest"})),
              testing::ElementsAre("futex", "pipe"));
  const json::value report = json_of({"report", file, "--sort", "longest"});
  EXPECT_THAT(names_of_rows(report),
              testing::ElementsAre("futex_wait", "lock", "pipe_read", "read_all"));
  EXPECT_EQ(report.at("rows").at(1).at("total").at("longest_ns").as_int64(), 3 * kSecond);
  EXPECT_EQ(report.at("rows").at(3).at("total").at("longest_ns").as_int64(), kSecond);
  const Ran ran = run({"report", file, "--sort", "longest"});
  EXPECT_THAT(ran.err, Not(HasSubstr("sorted by the mean")));
  EXPECT_THAT(ran.out, testing::ContainsRegex("PER BLOCK +LONGEST +FUNCTION"));
  EXPECT_THAT(ran.out, testing::ContainsRegex("23.0 us +3.00 s +lock"));
  EXPECT_THAT(ran.out, testing::ContainsRegex("1.00 s +1.00 s +read_all"));
  EXPECT_THAT(text_of({"report", file}), Not(HasSubstr("LONGEST")));

  BlockProfile other;
  other.add({"k:futex_wait", "lock"}, labels, 10, 200, 20);
  const std::string both = scratch_.path() / "both.pb.gz";
  ASSERT_EQ(run({"convert", file, write(other, "b.pb.gz"), "-o", both}).code, kExitOk);
  const json::value of_both = json_of({"report", both, "--sort", "longest"});
  EXPECT_EQ(of_both.at("rows").at(1).at("total").at("longest_ns").as_int64(), 3 * kSecond);
  EXPECT_EQ(of_both.at("rows").at(1).at("total").at("samples").as_int64(), 1'000'011);
  const json::value diff = json_of({"diff", both, file});
  EXPECT_EQ(diff.at("new").at("all").at("longest_ns").as_int64(), 3 * kSecond);
}

// The profile is that of a version that did not write the longest blocks.
TEST_F(BlockViewsTest, WithoutLongestBlocksTheMeansSort) {
  BlockProfile profile;
  profile.add({"k:futex_wait", "lock"}, {.state = "S", .wait = "futex"}, 100'000, 3 * kSecond);
  profile.add({"k:futex_wait", "stall"}, {.state = "S", .wait = "futex"}, 2, 2 * kSecond);
  profile.add({"k:io_schedule", "load"}, {.state = "D", .wait = "disk"}, 100, 350 * kMs);
  const std::string file = write(profile);
  const json::value by_time = json_of({"report", file, "--by", "wait"});
  EXPECT_THAT(names_of_rows(by_time), testing::ElementsAre("futex", "disk"));
  // Means: 1 s, 3.5 ms twice, 50 us of 100,002 blocks, 30 us.
  const json::value longest = json_of({"report", file, "--sort", "longest"});
  EXPECT_THAT(names_of_rows(longest),
              testing::ElementsAre("stall", "io_schedule", "load", "futex_wait", "lock"));
  const std::string text = text_of({"report", file, "--sort", "longest"});
  EXPECT_THAT(text, testing::ContainsRegex("PER BLOCK +FUNCTION"));
  EXPECT_THAT(text, testing::ContainsRegex("1.00 s +stall"));
  EXPECT_THAT(text, testing::ContainsRegex("3.50 ms +load"));
  EXPECT_THAT(text, testing::ContainsRegex("30.0 us +lock"));
  EXPECT_THAT(run({"report", file, "--sort", "longest"}).err, HasSubstr("sorted by the mean\n"));
}

TEST_F(BlockViewsTest, ThereAreNoLongestWaitsWithoutBlocks) {
  PprofProfile cpu({{"samples", "count"}, {"cpu", "nanoseconds"}});
  const std::uint32_t location = cpu.add_location({}, {});
  cpu.add_sample({.labels = cpu.add_labels({}), .stack = cpu.add_stack({&location, 1})},
                 std::vector<std::int64_t>{1, 10});
  const std::string file = scratch_.write("cpu.pb.gz", encode_pprof_gzip(cpu));
  const Ran ran = run({"report", file, "--sort", "longest"});
  EXPECT_EQ(ran.code, kExitUsage);
  EXPECT_THAT(ran.err, HasSubstr("--sort longest is for times of blocks"));
  EXPECT_EQ(run({"report", file, "--sort", "time"}).code, kExitOk);
  EXPECT_EQ(run({"report", file, "--sort", "size"}).code, kExitUsage);
  BlockProfile profile;
  profile.add({"load"}, {.state = "D"}, 1, kSecond);
  const Ran tree = run({"report", write(profile), "--tree", "--sort", "longest"});
  EXPECT_EQ(tree.code, kExitUsage);
}

// The class of a box, by the name that its title begins with.
std::string class_of_box(const std::string& svg, const std::string& name) {
  const std::size_t title = svg.find("<title>" + name + " - ");
  if (title == std::string::npos) return "no such box";
  const std::string attribute = "<rect class=\"";
  const std::size_t from = svg.find(attribute, title) + attribute.size();
  return svg.substr(from, svg.find('"', from) - from);
}

TEST_F(BlockViewsTest, PicturesOfWallClockTimeHaveColoursOfStates) {
  BlockProfile profile("wall");
  profile.add({"k:irq", "compute", "[on CPU]"}, {.state = "running"}, 100, kSecond);
  profile.add({"k:io_schedule", "load", "[blocked]"}, {.state = "D", .wait = "disk"}, 1, kSecond);
  profile.add({"queue", "[runnable]"}, {.state = "runnable"}, 1, kSecond);
  const std::string file = write(profile);
  const std::string made = scratch_.path() / "a.svg";
  ASSERT_EQ(run({"flame", file, "-o", made, "--by", "process"}).code, 0);
  const std::string svg = test::read_file(made);
  EXPECT_EQ(class_of_box(svg, "irq"), "k");
  EXPECT_EQ(class_of_box(svg, "compute"), "n");
  EXPECT_EQ(class_of_box(svg, "[blocked]"), "w");
  EXPECT_EQ(class_of_box(svg, "io_schedule"), "w");
  EXPECT_EQ(class_of_box(svg, "load"), "w");
  EXPECT_EQ(class_of_box(svg, "queue"), "q");
  EXPECT_THAT(svg, HasSubstr("rose: blocked"));
}

// The page shows percent of one CPU of all that has a duration.
TEST_F(BlockViewsTest, ThePageHasTheHeadingAndNoDuration) {
  BlockProfile profile;
  profile.add({"k:io_schedule", "load"}, {.state = "D", .wait = "disk"}, 12, 3500 * kMs);
  const std::string made = scratch_.path() / "a.html";
  ASSERT_EQ(run({"flame", write(profile), "-o", made}).code, 0);
  const json::value data = test::data_of_html(test::read_file(made));
  EXPECT_EQ(json::value_to<std::string>(data.at("scope")), "1 min: 12 blocks, 3.50 s off the CPU");
  EXPECT_EQ(json::value_to<std::string>(data.at("noun")), "block");
  EXPECT_EQ(data.at("all").at("cpu_ns").as_int64(), 3500 * kMs);
  EXPECT_FALSE(data.as_object().contains("duration_ns"));
}

// Only the outermost frame is a state: a function may have any name.
TEST_F(BlockViewsTest, OtherPicturesHaveNoColoursOfStates) {
  BlockProfile profile;
  profile.add({"k:io_schedule", "load", "[blocked]"}, {.state = "D", .wait = "disk"}, 1, kSecond);
  const std::string file = write(profile);
  const std::string made = scratch_.path() / "a.svg";
  ASSERT_EQ(run({"flame", file, "-o", made}).code, 0);
  const std::string svg = test::read_file(made);
  EXPECT_EQ(class_of_box(svg, "load"), "n");
  EXPECT_THAT(svg, Not(HasSubstr("rose")));
}

}  // namespace
}  // namespace profd
