#include "daemon/samples/aggregator.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/daemon/samples/synthetic_sample.h"

namespace profd {
namespace {

using test::kNoLimit;
using test::SyntheticSample;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr ProcessKey kOne{.tgid = 7, .exec_id = 1, .start_ns = 100};
constexpr ProcessKey kOneAfterExec{.tgid = 7, .exec_id = 2, .start_ns = 100};
constexpr ProcessKey kReusedPid{.tgid = 7, .exec_id = 1, .start_ns = 900};

ProcessView process_view(const ProcessKey& key, std::uint64_t time_ns, std::string_view comm) {
  return {.process = key,
          .time_ns = time_ns,
          .executable = {},
          .cgroup_id = 0,
          .uid = 0,
          .parent_tgid = 1,
          .kernel_thread = false,
          .comm = comm,
          .cgroup = {}};
}

// The pid of a process that has ended and been waited for.
std::uint32_t pid_of_the_dead() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return static_cast<std::uint32_t>(child);
}

TEST(Aggregator, CountsASampleInEachSessionOfItsMask) {
  Aggregator aggregator;
  aggregator.open(0, kNoLimit);
  aggregator.open(3, kNoLimit);
  aggregator.open(31, kNoLimit);
  SyntheticSample sample = SyntheticSample(kOne).leaf(1).period(10);
  aggregator.on_sample(sample.sessions(1U << 0 | 1U << 31).view());
  aggregator.on_sample(sample.sessions(1U << 31).view());
  EXPECT_EQ(aggregator.samples(0).samples, 1U);
  EXPECT_EQ(aggregator.samples(3).samples, 0U);
  EXPECT_EQ(aggregator.samples(31).samples, 2U);
  EXPECT_EQ(aggregator.samples(31).period_sum, 20U);
}

// Finds a copy that the session's samples are added to, or the other way round.
TEST(Aggregator, ACopyIsCountedApart) {
  Aggregator aggregator;
  aggregator.open(0, kNoLimit);
  SyntheticSample known = SyntheticSample(kOne).leaf(1).block(PROFD_BLOCK_SLEEPING, 10);
  aggregator.on_sample(known.view());
  SessionSamples copy = aggregator.copy(0);
  SyntheticSample open = SyntheticSample(kOne).leaf(1).block(PROFD_BLOCK_SLEEPING, 7).ongoing();
  aggregator.add_to(copy, open.view());
  aggregator.add_to(copy, open.view());
  aggregator.add_to(copy, SyntheticSample(kReusedPid).leaf(1).ongoing().view());
  aggregator.on_sample(known.view());
  EXPECT_EQ(copy.samples, 4U);
  EXPECT_EQ(copy.processes.size(), 2U);
  const StackTable& stacks = copy.processes.at(kOne).stacks;
  ASSERT_EQ(stacks.stacks().size(), 2U);
  EXPECT_EQ(stacks.stacks()[0].count, 1U);
  EXPECT_TRUE(stacks.stacks()[1].is_ongoing);
  EXPECT_EQ(stacks.stacks()[1].count, 2U);
  EXPECT_EQ(stacks.ns(stacks.stacks()[1]), 14U);
  EXPECT_EQ(aggregator.samples(0).samples, 2U);
  EXPECT_EQ(aggregator.samples(0).processes.size(), 1U);
  EXPECT_EQ(aggregator.samples(0).processes.at(kOne).stacks.stacks().size(), 1U);
}

TEST(Aggregator, IgnoresSlotsThatAreNotOpen) {
  Aggregator aggregator;
  aggregator.open(0, kNoLimit);
  aggregator.on_sample(SyntheticSample(kOne).leaf(1).sessions(0b11).view());
  EXPECT_EQ(aggregator.close(0).samples, 1U);
  aggregator.on_sample(SyntheticSample(kOne).leaf(1).sessions(0b11).view());
  aggregator.open(0, kNoLimit);
  EXPECT_EQ(aggregator.samples(0).samples, 0U);
}

// The names of the threads of the session's stacks, each with its number of samples.
std::map<std::string, std::uint64_t> samples_by_thread(const SessionSamples& session) {
  std::map<std::string, std::uint64_t> samples;
  for (const auto& [key, process] : session.processes) {
    for (const StackTable::Stack& stack : process.stacks.stacks()) {
      samples[std::string(session.threads.value().name(stack.thread))] += stack.count;
    }
  }
  return samples;
}

TEST(Aggregator, DistinguishesThreadsWhereTheSessionWantsIt) {
  Aggregator aggregator;
  aggregator.open(0, kNoLimit, true);
  aggregator.open(1, kNoLimit);
  for (const char* name : {"main", "worker-1", "worker-2", "main"}) {
    aggregator.on_sample(SyntheticSample(kOne).leaf(1).sessions(0b11).thread(name).view());
  }
  EXPECT_THAT(samples_by_thread(aggregator.samples(0)),
              UnorderedElementsAre(Pair("main", 2U), Pair("worker-#", 2U)));
  const SessionSamples& without = aggregator.samples(1);
  EXPECT_FALSE(without.threads);
  EXPECT_EQ(without.processes.at(kOne).stacks.stacks().size(), 1U);
}

TEST(Aggregator, AThreadWithTheNameOfItsProcessKeepsItsNumber) {
  Aggregator aggregator;
  aggregator.open(0, kNoLimit, true);
  aggregator.on_process(process_view(kOne, 1, "python3"));
  for (const char* name : {"python3", "python4", "12", ""}) {
    aggregator.on_sample(SyntheticSample(kOne).leaf(1).thread(name).view());
  }
  EXPECT_THAT(
      samples_by_thread(aggregator.samples(0)),
      UnorderedElementsAre(Pair("python3", 1U), Pair("python#", 1U), Pair("#", 1U), Pair("", 1U)));
}

TEST(Aggregator, ThreadsOverTheLimitOfNamesCountTogether) {
  Aggregator aggregator;
  aggregator.open(0, kNoLimit, true);
  for (std::size_t i = 0; i < ThreadNames::kMaxNames + 4; ++i) {
    aggregator.on_sample(SyntheticSample(kOne).leaf(1).thread(std::to_string(i) + "x").view());
  }
  const SessionSamples& session = aggregator.samples(0);
  EXPECT_EQ(session.threads->size(), ThreadNames::kMaxNames);
  EXPECT_EQ(samples_by_thread(session).at("[other threads]"), 5U);  // it has a name itself
  EXPECT_GE(session.bytes, (ThreadNames::kMaxNames - 1) * ThreadNames::kNameBytes);
}

class ThreadNameSharesTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kUser = 1001;

  ThreadNameSharesTest() { aggregator_.open(0, kNoLimit, true, MemoryShares::kUsers); }

  // Samples of threads with names of their own, in a process of this user. Returns how many have
  // their names.
  std::size_t add_threads(std::uint32_t uid, std::size_t count) {
    ProcessView process = process_view({.tgid = uid, .exec_id = 1, .start_ns = 1}, 1, "work");
    process.uid = uid;
    aggregator_.on_process(process);
    return add_threads_of(process.process, count);
  }
  std::size_t add_threads_of(const ProcessKey& process, std::size_t count) {
    const std::size_t before = names();
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name = std::to_string(++name_) + "x";
      aggregator_.on_sample(SyntheticSample(process).leaf(1).thread(name).view());
    }
    return names() - before;
  }
  [[nodiscard]] std::size_t names() const { return aggregator_.samples(0).threads->size(); }

  std::size_t name_ = 0;
  UserRefusals refusals_;
  Aggregator aggregator_{nullptr, &refusals_};
};

TEST_F(ThreadNameSharesTest, OneUserHasAnEighthAndIsCounted) {
  EXPECT_EQ(add_threads(kUser, ThreadNames::kMaxNamesOfUser + 7), ThreadNames::kMaxNamesOfUser);
  const auto users = refusals_.users();
  ASSERT_EQ(users.size(), 1U);
  EXPECT_EQ(users[0].uid, kUser);
  EXPECT_EQ(users[0].refused.at("thread_names"), 7U);
  EXPECT_EQ(add_threads(kUser + 1, 100), 100U);
}

TEST_F(ThreadNameSharesTest, UsersLeaveHalfToRoot) {
  std::size_t of_users = 0;
  for (std::uint32_t i = 0; i < 8; ++i) {
    of_users += add_threads(kUser + i, ThreadNames::kMaxNamesOfUser);
  }
  EXPECT_EQ(of_users, ThreadNames::kMaxNamesOfUsers);
  EXPECT_EQ(add_threads(0, ThreadNames::kMaxNames), ThreadNames::kMaxNames - of_users - 1);
}

// A user who has more processes than the table may have has some without a record.
TEST_F(ThreadNameSharesTest, ProcessesOfNoKnownUserHaveAnEighthTogether) {
  std::size_t named = 0;
  for (std::uint32_t pid = 1; pid <= 4; ++pid) {
    named += add_threads_of({.tgid = pid, .exec_id = 1, .start_ns = 1}, 300);
  }
  EXPECT_EQ(named, ThreadNames::kMaxNamesOfUser);
}

TEST(Aggregator, AUsersOwnSessionHasAllNamesOfThreads) {
  Aggregator aggregator;
  aggregator.open(0, kNoLimit, true, MemoryShares::kNone);
  ProcessView process = process_view(kOne, 1, "work");
  process.uid = 1001;
  aggregator.on_process(process);
  for (std::size_t i = 0; i < ThreadNames::kMaxNamesOfUser + 7; ++i) {
    aggregator.on_sample(SyntheticSample(kOne).leaf(1).thread(std::to_string(i) + "x").view());
  }
  EXPECT_EQ(samples_by_thread(aggregator.samples(0)).size(), ThreadNames::kMaxNamesOfUser + 7);
}

TEST(Aggregator, KeepsProcessImagesApart) {
  Aggregator aggregator;
  aggregator.open(0, kNoLimit);
  for (const ProcessKey& key : {kOne, kOneAfterExec, kReusedPid}) {
    aggregator.on_sample(SyntheticSample(key).leaf(1).view());
  }
  EXPECT_EQ(aggregator.close(0).processes.size(), 3U);
}

TEST(Aggregator, CountsWhatTheMemoryLimitRefuses) {
  constexpr std::uint64_t kLimit = 64 << 10;
  constexpr std::uint64_t kSamples = 10'000;
  Aggregator aggregator;
  aggregator.open(0, kLimit);
  aggregator.open(1, kNoLimit);
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    aggregator.on_sample(SyntheticSample(kOne).leaf(i).sessions(0b11).view());
  }
  const SessionSamples limited = aggregator.close(0);
  EXPECT_GT(limited.samples, 0U);
  EXPECT_GT(limited.refused, 0U);
  EXPECT_EQ(limited.samples + limited.refused, kSamples);
  EXPECT_LE(limited.bytes, kLimit);
  EXPECT_EQ(aggregator.close(1).samples, kSamples);
}

class MemorySharesTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kLimit = 1 << 20;

  // A process of each user; that of root has the pid 10.
  void open(MemoryShares shares) {
    aggregator_.open(0, kLimit, false, shares);
    for (std::uint32_t uid : {0U, 1001U, 1002U, 1003U, 1004U, 1005U, 1006U}) {
      ProcessView view = process_view(process_of(uid), 1, "work");
      view.uid = uid;
      aggregator_.on_process(view);
    }
  }
  static ProcessKey process_of(std::uint32_t uid) {
    return {.tgid = 10 + uid, .exec_id = 1, .start_ns = 100};
  }
  // Samples with so many different stacks of some hundred bytes.
  void add_stacks(std::uint32_t uid, int count) {
    for (int i = 0; i < count; ++i) {
      SyntheticSample sample(process_of(uid));
      sample.leaf(++address_);
      for (int frame = 0; frame < 50; ++frame) sample.user(1);
      aggregator_.on_sample(sample.sessions(1).view());
    }
  }
  struct Counted {
    std::uint64_t with_frames = 0;
    std::uint64_t without = 0;
  };
  Counted counted(std::uint32_t uid) {
    Counted counted;
    for (const auto& stack : aggregator_.samples(0).processes.at(process_of(uid)).stacks.stacks()) {
      const bool is_bare = stack.user_end == PROFD_END_OVER_SHARE;
      EXPECT_EQ(is_bare, stack.user_frames == 0);
      (is_bare ? counted.without : counted.with_frames) += stack.count;
    }
    return counted;
  }

  Aggregator aggregator_;
  std::uint64_t address_ = 1000;
};

TEST_F(MemorySharesTest, OneUsersStacksTakeNoSamplesOfOthers) {
  open(MemoryShares::kUsers);
  add_stacks(1001, 10'000);
  const Counted hostile = counted(1001);
  EXPECT_GT(hostile.with_frames, 0U);
  EXPECT_EQ(hostile.with_frames + hostile.without, 10'000U) << "each sample is counted";
  EXPECT_LE(aggregator_.samples(0).bytes, kLimit / 4 + 4096);
  add_stacks(1002, 100);
  EXPECT_EQ(counted(1002).with_frames, 100U);
  add_stacks(0, 300);
  EXPECT_EQ(counted(0).with_frames, 300U);
  EXPECT_EQ(aggregator_.samples(0).refused, 0U);
}

TEST_F(MemorySharesTest, AllUsersTogetherHaveHalf) {
  open(MemoryShares::kUsers);
  for (std::uint32_t uid = 1001; uid <= 1006; ++uid) add_stacks(uid, 5'000);
  EXPECT_LE(aggregator_.samples(0).bytes, kLimit / 2 + 8 * 4096);
  add_stacks(0, 400);
  EXPECT_EQ(counted(0).with_frames, 400U);
}

// A user who fills a ring has processes whose records come late.
TEST_F(MemorySharesTest, ProcessesOfNoKnownUserHaveThePartOfOne) {
  constexpr std::uint32_t kWithoutRecord = 2001;
  open(MemoryShares::kUsers);
  add_stacks(kWithoutRecord, 10'000);
  const Counted unknown = counted(kWithoutRecord);
  EXPECT_EQ(unknown.with_frames + unknown.without, 10'000U);
  EXPECT_LE(aggregator_.samples(0).bytes, kLimit / 4 + 4096);
}

TEST_F(MemorySharesTest, ASessionOfAUserHasNone) {
  open(MemoryShares::kNone);
  add_stacks(1001, 10'000);
  EXPECT_EQ(counted(1001).without, 0U);
  EXPECT_GT(aggregator_.samples(0).bytes, kLimit / 10 * 9);
  EXPECT_EQ(aggregator_.samples(0).refused, 10'000 - counted(1001).with_frames);
}

TEST(Aggregator, HoldsAStormOfProcessesToTheLimit) {
  constexpr std::uint64_t kLimit = 1 << 20;
  constexpr std::uint32_t kProcesses = 10'000;
  Aggregator aggregator;
  aggregator.open(0, kLimit);
  for (std::uint32_t pid = 1; pid <= kProcesses; ++pid) {
    aggregator.on_sample(
        SyntheticSample({.tgid = pid, .exec_id = 1, .start_ns = pid}).leaf(1).view());
  }
  const SessionSamples& held = aggregator.samples(0);
  EXPECT_GT(held.processes.size(), 200U);
  EXPECT_LT(held.processes.size(), 1000U);
  EXPECT_EQ(held.samples, held.processes.size());
  EXPECT_EQ(held.samples + held.refused, kProcesses);
  EXPECT_LE(held.bytes, kLimit);
}

TEST(Aggregator, KnowsAProcessByItsLatestName) {
  Aggregator aggregator;
  aggregator.on_process(process_view(kOne, 2, "new"));
  aggregator.on_process(process_view(kOne, 1, "old"));  // from another CPU's ring
  EXPECT_EQ(aggregator.processes().find(kOne)->comm, "new");
  aggregator.on_process(process_view(kOne, 3, "newest"));
  EXPECT_EQ(aggregator.processes().find(kOne)->comm, "newest");
}

TEST(Aggregator, ForgetsOnlyExitedProcessesWithoutSamplesInASession) {
  const ProcessKey seen{.tgid = pid_of_the_dead(), .exec_id = 1, .start_ns = 1};
  const ProcessKey unseen{.tgid = pid_of_the_dead(), .exec_id = 1, .start_ns = 2};
  const ProcessKey alive{
      .tgid = static_cast<std::uint32_t>(::getpid()), .exec_id = 1, .start_ns = 3};
  Aggregator aggregator;
  aggregator.open(0, kNoLimit);
  for (const ProcessKey& key : {seen, unseen, alive}) {
    aggregator.on_process(process_view(key, 1, "x"));
  }
  aggregator.on_sample(SyntheticSample(seen).leaf(1).view());
  aggregator.forget_processes().destroy();
  EXPECT_NE(aggregator.processes().find(seen), nullptr);
  EXPECT_EQ(aggregator.processes().find(unseen), nullptr);
  EXPECT_NE(aggregator.processes().find(alive), nullptr);
}

// Finds: a process of which no block has ended is forgotten, and then its first one has no name.
TEST(Aggregator, KeepsAProcessThatIsNeededElsewhere) {
  const ProcessKey blocked{.tgid = pid_of_the_dead(), .exec_id = 1, .start_ns = 1};
  const ProcessKey other{.tgid = pid_of_the_dead(), .exec_id = 1, .start_ns = 2};
  Aggregator aggregator;
  for (const ProcessKey& key : {blocked, other}) aggregator.on_process(process_view(key, 1, "x"));
  aggregator.forget_processes([&](const ProcessKey& key) { return key == blocked; }).destroy();
  EXPECT_NE(aggregator.processes().find(blocked), nullptr);
  EXPECT_EQ(aggregator.processes().find(other), nullptr);
}

// Finds: blocks that count once whatever they stand for, and a refused one whose time is not kept.
TEST(Aggregator, CountsTheBlocksThatASampleStandsFor) {
  Aggregator aggregator;
  aggregator.open(0, 5'000);  // of which a process takes 2,048
  const auto block = [](std::uint64_t address, std::uint64_t ns, std::uint64_t count) {
    return SyntheticSample(kOne).leaf(address).block(PROFD_BLOCK_SLEEPING, ns, count);
  };
  aggregator.on_sample(block(1, 1'000, 3).view());
  aggregator.on_sample(block(1, 500, 1).view());
  SyntheticSample large = block(2, 70, 2);
  for (std::uint64_t i = 0; i < 1'000; ++i) large.user(i + 10);
  aggregator.on_sample(large.view());
  const SessionSamples& session = aggregator.samples(0);
  EXPECT_EQ(session.samples, 4U);
  EXPECT_EQ(session.refused, 2U);
  EXPECT_EQ(session.refused_ns, 70U);
  EXPECT_EQ(session.tick_ns, 0U);
  const StackTable& stacks = session.processes.at(kOne).stacks;
  ASSERT_EQ(stacks.stacks().size(), 1U);
  EXPECT_EQ(stacks.ns(stacks.stacks()[0]), 1'500U);
}

TEST(Aggregator, CountsTheTimeOfTicksThatHaveOne) {
  Aggregator aggregator;
  aggregator.open(0, kNoLimit);
  aggregator.on_sample(SyntheticSample(kOne).leaf(1).block(PROFD_BLOCK_NONE, 10'000).view());
  aggregator.on_sample(SyntheticSample(kOne).leaf(1).block(PROFD_BLOCK_DISK, 600).view());
  aggregator.on_sample(
      SyntheticSample(kOne).leaf(1).block(PROFD_BLOCK_DISK, 20'000'000).unsampled().view());
  EXPECT_EQ(aggregator.samples(0).tick_ns, 10'000U);
}

TEST(Aggregator, BoundsTheMappingsOfAProcess) {
  Aggregator aggregator;
  for (std::uint64_t id = 1; id <= ProcessTable::kMaxMappings + 100; ++id) {
    aggregator.on_mapping(MappingView{{.process = kOne,
                                       .time_ns = id,
                                       .id = id,
                                       .start = id << 12,
                                       .end = (id + 1) << 12,
                                       .file_offset = 0,
                                       .file = {},
                                       .kind = PROFD_MAPPING_ANONYMOUS}},
                          nullptr);
  }
  EXPECT_EQ(aggregator.processes().find(kOne)->mappings.size(), ProcessTable::kMaxMappings);
}

constexpr std::uint64_t kTickNs = std::uint64_t{kTickMs} * 1'000'000;
constexpr std::uint64_t kStartNs = 77'000'000'123;

void add_at(Aggregator& aggregator, SyntheticSample& sample, std::uint64_t time_ns) {
  SampleView view = sample.view();
  view.time_ns = time_ns;
  aggregator.on_sample(view);
}

// The ticks of each stack, in the order in which its samples came.
std::map<std::uint32_t, std::vector<std::uint32_t>> ticks_by_stack(const ProcessSamples& process) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> ticks;
  for (const TimeLog::Entry& entry : process.times.entries())
    ticks[entry.stack].push_back(entry.tick);
  return ticks;
}

TEST(Aggregator, KeepsTheTimeOfEachSample) {
  Aggregator aggregator;
  aggregator.open(0, kNoLimit);
  aggregator.open(1, kNoLimit);
  aggregator.keep_times(0, std::chrono::nanoseconds(kStartNs));
  SyntheticSample one = SyntheticSample(kOne).leaf(1).sessions(0b11);
  SyntheticSample other = SyntheticSample(kOne).leaf(2).sessions(0b11);
  add_at(aggregator, one, kStartNs - 5);  // before the slot's owner has read the clock
  add_at(aggregator, other, kStartNs + kTickNs - 1);
  add_at(aggregator, one, kStartNs + kTickNs);
  add_at(aggregator, one, kStartNs + 250 * kTickNs + 3);
  add_at(aggregator, other, kStartNs + 249 * kTickNs);  // of another CPU's ring
  const SessionSamples with = aggregator.close(0);
  EXPECT_THAT(ticks_by_stack(with.processes.at(kOne)),
              UnorderedElementsAre(Pair(0, testing::ElementsAre(0, 1, 250)),
                                   Pair(1, testing::ElementsAre(0, 249))));
  EXPECT_EQ(with.times.value().until, kMaxTicks);
  const SessionSamples without = aggregator.close(1);
  EXPECT_TRUE(without.processes.at(kOne).times.entries().empty());
  EXPECT_FALSE(without.times);
  EXPECT_LT(without.bytes, with.bytes);
}

// Each sample is counted, whether or not it has a time.
TEST(Aggregator, TimesEndWhereTheirMemoryDoes) {
  constexpr std::uint64_t kLimit = 1 << 20;
  Aggregator aggregator;
  aggregator.open(0, kLimit);
  aggregator.keep_times(0, std::chrono::nanoseconds(kStartNs));
  SyntheticSample sample = SyntheticSample(kOne).leaf(1);
  constexpr std::uint32_t kSamples = 200'000;
  for (std::uint32_t i = 0; i < kSamples; ++i) add_at(aggregator, sample, kStartNs + i * kTickNs);
  const SessionSamples samples = aggregator.close(0);
  EXPECT_EQ(samples.samples, kSamples);
  EXPECT_EQ(samples.refused, 0U);
  EXPECT_LT(samples.bytes, kLimit / 8 + 4096);
  const std::vector<TimeLog::Entry> entries = samples.processes.at(kOne).times.entries();
  ASSERT_GT(entries.size(), kLimit / 8 / 4);
  EXPECT_LT(entries.size(), kSamples);
  EXPECT_EQ(samples.times.value().until, entries.back().tick + 1);
}

TEST(Aggregator, ATimeBeyondTheLastTickIsNotKept) {
  Aggregator aggregator;
  aggregator.open(0, kNoLimit);
  aggregator.keep_times(0, std::chrono::nanoseconds(kStartNs));
  SyntheticSample sample = SyntheticSample(kOne).leaf(1);
  add_at(aggregator, sample, kStartNs + kMaxTicks * kTickNs - 1);
  add_at(aggregator, sample, kStartNs + kMaxTicks * kTickNs);
  add_at(aggregator, sample, std::numeric_limits<std::uint64_t>::max());
  const SessionSamples samples = aggregator.close(0);
  EXPECT_EQ(samples.samples, 3U);
  EXPECT_THAT(ticks_by_stack(samples.processes.at(kOne)),
              UnorderedElementsAre(Pair(0, testing::ElementsAre(kMaxTicks - 1))));
}

TEST(Aggregator, KeepsNoTimesAfterATake) {
  Aggregator aggregator;
  aggregator.open(0, kNoLimit);
  aggregator.keep_times(0, std::chrono::nanoseconds(kStartNs));
  SyntheticSample sample = SyntheticSample(kOne).leaf(1);
  add_at(aggregator, sample, kStartNs);
  EXPECT_FALSE(aggregator.take(0).times);
  add_at(aggregator, sample, kStartNs);
  EXPECT_TRUE(aggregator.close(0).processes.at(kOne).times.entries().empty());
}

}  // namespace
}  // namespace profd
