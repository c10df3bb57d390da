// Threads that are off their CPU, as the kernel side reports them: threads of this process, whose
// waits it measures itself.

#include <bpf/bpf.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "bpf/block_abi.h"
#include "collectors/bpf/programs.h"
#include "collectors/host/clock.h"
#include "tests/bpf/blocked_reader.h"
#include "tests/bpf/switch_object.h"
#include "tests/bpf/workload.h"

namespace profd::test {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kLongNs = PROFD_BLOCK_LONG_NS;
constexpr unsigned kSlot = 5;

constexpr profd_block_rate kAllBlocks{.long_ns = kLongNs,
                                      .scale = 0xffffffff,
                                      .walks_per_second = 1'000'000,
                                      .burst = 1'000'000,
                                      .new_sites_per_second = 0};
// But for one block in 1,024, and one for a new site on each CPU.
constexpr profd_block_rate kNoBlocks{
    .long_ns = kLongNs, .scale = 0, .walks_per_second = 0, .burst = 0, .new_sites_per_second = 0};

std::uint32_t own_pid() { return static_cast<std::uint32_t>(::getpid()); }

std::uint32_t own_tid() { return static_cast<std::uint32_t>(::syscall(SYS_gettid)); }

std::uint64_t block_clock_ns() { return static_cast<std::uint64_t>(now_ns(CLOCK_MONOTONIC)); }

void sleep_for_ns(std::uint64_t ns) {
  const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(ns)};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

// What a thread measured of itself.
struct OwnTimes {
  std::uint32_t tid = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t waited_ns = 0;
};

// Runs the wait so often, in a thread of its own.
OwnTimes in_a_thread(int times, const std::function<void()>& wait) {
  OwnTimes own;
  std::thread([&] {
    own.tid = own_tid();
    own.start_ns = block_clock_ns();
    for (int i = 0; i < times; ++i) {
      const std::uint64_t before = block_clock_ns();
      wait();
      own.waited_ns += block_clock_ns() - before;
    }
    own.end_ns = block_clock_ns();
  }).join();
  return own;
}

class BlockTest : public testing::Test {
 protected:
  void SetUp() override {
    auto programs = Programs::load(Programs::built_in(), std::size_t{1} << 23);
    ASSERT_TRUE(programs) << programs.error().message;
    programs_.emplace(std::move(*programs));
    switch_.emplace(*programs_);
    records_.emplace(*programs_);
    const auto tasks = programs_->list_tasks(own_pid());
    ASSERT_TRUE(tasks && tasks->size() == 1);
    self_ = tasks->front();
    const auto fd = programs_->map("profd_filter");
    ASSERT_TRUE(fd);
    void* memory =
        ::mmap(nullptr, sizeof(profd_filter), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    ASSERT_NE(memory, MAP_FAILED);
    filter_ = static_cast<profd_filter*>(memory);
    switch_->set_rate(kAllBlocks);
    (void)switch_->read("profd_watch_threads", own_pid());
  }

  void TearDown() override {
    hooks_.clear();
    if (filter_ != nullptr) ::munmap(filter_, sizeof(profd_filter));
  }

  // A session of the slot, with this process as its target, as user space begins it.
  void begin(std::uint32_t blocked, std::uint32_t runnable) {
    const profd_target_key key{.tgid = self_.global_tgid, .slot = kSlot};
    const profd_target target{.start_ns = self_.start_ns,
                              .ended_ns = 0,
                              .exec_id = self_.exec_id,
                              .from_exec = 0,
                              .account = 0,
                              .reserved = 0};
    ASSERT_EQ(bpf_map_update_elem(*programs_->map("profd_targets"), &key, &target, BPF_ANY), 0);
    make_live(blocked, runnable);
    if (hooks_.empty()) {
      hooks_.push_back(switch_->attach("profd_switch_fork"));
      hooks_.push_back(switch_->attach("profd_switch"));
    }
    std::uint64_t before = 0;
    do {
      before = switch_->switches().threads_watched;
      (void)switch_->read("profd_watch_threads");
    } while (switch_->switches().threads_watched != before);
  }

  void make_live(std::uint32_t blocked, std::uint32_t runnable) {
    filter_->blocked = blocked;
    filter_->runnable = runnable;
    filter_->by_process = kBit;
    filter_->began_ns[kSlot] = block_clock_ns();
    filter_->live = kBit;
    ++filter_->match_generation;
  }

  // No block counts from now on; takes all that was sent.
  void end() {
    filter_->live = 0;
    ++filter_->match_generation;
    hooks_.clear();
    GracePeriods& grace_periods = programs_->grace_periods();
    const std::uint64_t number = grace_periods.begin();
    while (!grace_periods.is_over(number)) std::this_thread::sleep_for(milliseconds(1));
    records_->consume();
  }

  // What must hold after each test, whatever happened: exactly.
  void expect_balance() {
    const profd_switch_counters switches = switch_->switches();
    const profd_block_counters& blocks = switches.of_session[kSlot];
    profd_block_term sum{};
    const auto add = [&sum](const profd_block_term& term) {
      sum.count += term.count;
      sum.ns += term.ns;
    };
    add(blocks.sampled);
    add(blocks.long_unsampled);
    add(blocks.short_unsampled);
    for (const profd_block_term& term : blocks.lost) add(term);
    EXPECT_EQ(blocks.blocked.count, sum.count);
    EXPECT_EQ(blocks.blocked.ns, sum.ns);
    const profd_counters walks = switch_->counters();
    const std::uint64_t lost =
        std::accumulate(std::begin(walks.lost), std::end(walks.lost), std::uint64_t{0});
    EXPECT_EQ(walks.taken, walks.sent + walks.filtered + lost);
    EXPECT_EQ(walks.sent, records_->starts.size());
    EXPECT_EQ(walks.session_taken[kSlot], switches.walks);
    EXPECT_EQ(records_->malformed, 0U);
    std::set<std::uint64_t> ids;
    for (const SentBlock& start : records_->starts) {
      EXPECT_TRUE(ids.insert(start.block.id).second);
      EXPECT_NE(start.block.id, 0U);
      EXPECT_EQ(start.sample.process.tgid, own_pid());
      EXPECT_EQ(start.sample.sessions, kBit);
    }
  }

  // Those of a thread that began and ended while it measured its waits.
  [[nodiscard]] std::vector<const SentBlock*> measured(const OwnTimes& own) const {
    std::vector<const SentBlock*> found = records_->ended(own.tid);
    std::erase_if(found, [&](const SentBlock* start) {
      return start->sample.time_ns < own.start_ns ||
             records_->ends.at(start->block.id) > own.end_ns;
    });
    return found;
  }

  [[nodiscard]] std::optional<SentWholeBlock> listed(std::uint32_t tid) const {
    for (SentWholeBlock& block : whole_blocks_in(switch_->read("profd_open_blocks"))) {
      if (block.block.tid == tid) return std::move(block);
    }
    return std::nullopt;
  }

  static constexpr std::uint32_t kBit = 1U << kSlot;

  std::optional<Programs> programs_;
  std::optional<SwitchObject> switch_;
  std::optional<BlockRecords> records_;
  profd_filter* filter_ = nullptr;
  profd_task self_{};
  std::vector<UniqueFd> hooks_;
};

// Finds: an end that is not joined or has another time, a block that is left out, a wrong state.
TEST_F(BlockTest, EachSleepIsABlockAsLongAsTheThreadMeasuredIt) {
  begin(kBit, 0);
  const OwnTimes own = in_a_thread(100, [] { sleep_for_ns(2 * kMillisecond); });
  end();
  std::uint64_t ns = 0;
  std::size_t sleeps = 0;
  for (const SentBlock* start : measured(own)) {
    ns += records_->ns_of(*start);
    EXPECT_EQ(start->block.chance, 0U);
    EXPECT_GT(start->sample.kernel_frames, 0U);
    if (start->block.state != PROFD_BLOCK_SLEEPING) continue;
    ++sleeps;
    EXPECT_EQ(start->sample.context, PROFD_CONTEXT_SYSCALL);
    EXPECT_GT(start->sample.user_frames, 0U);
  }
  EXPECT_NEAR(static_cast<double>(sleeps), 100, 1);
  EXPECT_LE(ns, own.waited_ns);
  EXPECT_GE(ns, own.waited_ns / 10 * 9);
  expect_balance();
}

// Finds: a long block that is lost where it was not chosen, and a short one that is sent.
TEST_F(BlockTest, ALongBlockThatIsNotChosenIsReportedWhole) {
  switch_->set_rate(kNoBlocks);
  begin(kBit, 0);
  const OwnTimes own = in_a_thread(20, [] {
    sleep_for_ns(kMillisecond);
    sleep_for_ns(20 * kMillisecond);
  });
  end();
  std::size_t found = 0;
  for (const SentWholeBlock* whole : records_->wholes_of(own.tid)) {
    const profd_whole_block& block = whole->block;
    EXPECT_GE(block.end_ns - block.start_ns, kLongNs);
    EXPECT_EQ(block.process.tgid, own_pid());
    EXPECT_EQ(block.sessions, kBit);
    EXPECT_EQ(block.flags, 0U);
    EXPECT_EQ(block.id, 0U);
    if (block.start_ns < own.start_ns || block.end_ns > own.end_ns) continue;
    ++found;
    EXPECT_EQ(block.call, SYS_clock_nanosleep);
    EXPECT_EQ(block.state, PROFD_BLOCK_SLEEPING);
    EXPECT_EQ(block.context, PROFD_CONTEXT_SYSCALL);
    EXPECT_NE(block.user_ip, 0U);
    EXPECT_GT(block.kernel_frames, 0U);
  }
  std::size_t chosen = 0;
  for (const SentBlock* start : measured(own)) {
    if (records_->ns_of(*start) >= kLongNs) ++chosen;
  }
  EXPECT_GE(found + chosen, 20U);
  EXPECT_GE(found, 10U);
  const profd_block_counters blocks = switch_->switches().of_session[kSlot];
  EXPECT_EQ(blocks.long_unsampled.count, records_->wholes.size());
  EXPECT_GE(blocks.short_unsampled.count, 10U);
  expect_balance();
}

// Finds: blocks of the time before their session counts, also the part of one that goes on then,
// and a record of them that is not sent: user space has its own view of them.
TEST_F(BlockTest, BlocksAreCountedFromWhenTheirSessionCounts) {
  filter_->counted_from_ns[kSlot] = PROFD_NOT_YET_NS;
  filter_->all_counted_ns = PROFD_NOT_YET_NS;
  begin(kBit, 0);
  const OwnTimes before = in_a_thread(10, [] { sleep_for_ns(2 * kMillisecond); });
  BlockedReader reader;
  sleep_for_ns(100 * kMillisecond);
  EXPECT_EQ(switch_->switches().of_session[kSlot].blocked.count, 0U);
  const std::uint64_t from_ns = block_clock_ns();
  filter_->counted_from_ns[kSlot] = from_ns;
  filter_->all_counted_ns = from_ns;
  sleep_for_ns(20 * kMillisecond);
  const std::uint32_t tid = reader.tid();
  reader.wake();
  end();
  const std::uint64_t ns = block_clock_ns() - from_ns;
  EXPECT_GE(measured(before).size(), 9U);
  EXPECT_FALSE(records_->ended(tid).empty());
  const profd_block_term blocked = switch_->switches().of_session[kSlot].blocked;
  EXPECT_GE(blocked.ns, 2 * 20 * kMillisecond);  // of this thread and the reader
  EXPECT_LE(blocked.ns, 3 * ns);
  expect_balance();
}

// Finds: preemption that counts as a wait, and the end of a slice that does.
TEST_F(BlockTest, ThreadsThatShareACpuAreRunnable) {
  begin(0, kBit);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(allowed_cpus().front(), &one);
  const auto spin = [&one] {
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    const std::uint64_t until = block_clock_ns() + 300 * kMillisecond;
    while (block_clock_ns() < until) {
    }
  };
  std::thread other(spin);
  const OwnTimes own = in_a_thread(1, spin);
  other.join();
  end();
  EXPECT_GE(measured(own).size(), 2U);
  for (const SentBlock& start : records_->starts) {
    EXPECT_EQ(start.block.state, PROFD_BLOCK_RUNNABLE);
  }
  expect_balance();
}

// Finds: a sleeper that is not stamped, an id that changes or has no end.
TEST_F(BlockTest, ABlockFromBeforeTheStartIsListedAndEnds) {
  BlockedReader reader;
  begin(kBit, 0);
  const auto first = listed(reader.tid());
  ASSERT_TRUE(first);
  EXPECT_EQ(first->block.flags, PROFD_BLOCK_OPEN | PROFD_BLOCK_FROM_BEFORE);
  EXPECT_EQ(first->block.sessions, kBit);
  EXPECT_EQ(first->block.call, SYS_read);
  EXPECT_EQ(first->block.state, PROFD_BLOCK_SLEEPING);
  EXPECT_GT(first->block.kernel_frames, 0U);
  EXPECT_NE(first->block.id, 0U);
  const auto second = listed(reader.tid());
  ASSERT_TRUE(second);
  EXPECT_EQ(second->block.id, first->block.id);
  EXPECT_EQ(second->block.start_ns, first->block.start_ns);
  reader.wake();
  end();
  ASSERT_TRUE(records_->ends.contains(first->block.id));
  EXPECT_GE(records_->ends.at(first->block.id), second->block.end_ns);
  expect_balance();
}

// Finds: an open block that is listed with another id than its start has.
TEST_F(BlockTest, AnOpenBlockThatWasChosenIsListedByTheIdOfItsStart) {
  begin(kBit, 0);
  BlockedReader reader;
  const auto open = listed(reader.tid());
  ASSERT_TRUE(open);
  EXPECT_EQ(open->block.flags, PROFD_BLOCK_OPEN | PROFD_BLOCK_WAS_CHOSEN);
  records_->consume();
  EXPECT_TRUE(std::ranges::any_of(records_->starts, [&](const SentBlock& start) {
    return start.block.id == open->block.id && start.sample.tid == reader.tid() &&
           start.sample.time_ns == open->block.start_ns;
  }));
  reader.wake();
  end();
  EXPECT_TRUE(records_->ends.contains(open->block.id));
  expect_balance();
}

// Finds: a block that counts for another session, which may not see the process, since that has the
// slot when the block ends.
TEST_F(BlockTest, ABlockDoesNotCountForTheNextSessionOfItsSlot) {
  switch_->set_rate(kNoBlocks);
  begin(kBit, 0);
  BlockedReader reader;
  filter_->live = 0;
  ++filter_->match_generation;
  const profd_target_key key{.tgid = self_.global_tgid, .slot = kSlot};
  ASSERT_EQ(bpf_map_delete_elem(*programs_->map("profd_targets"), &key), 0);
  std::this_thread::sleep_for(milliseconds(20));  // longer than long_ns
  make_live(kBit, 0);
  records_->consume();
  const std::size_t wholes = records_->wholes_of(reader.tid()).size();
  const std::uint64_t blocked = switch_->switches().of_session[kSlot].blocked.count;
  const std::uint32_t tid = reader.tid();
  reader.wake();
  records_->consume();
  EXPECT_EQ(switch_->switches().of_session[kSlot].blocked.count, blocked);
  EXPECT_EQ(records_->wholes_of(tid).size(), wholes);
  end();
  expect_balance();
}

// Finds: a long block that is in neither the records nor the list of those that are open, since it
// ends between the end of its session and the list. One of them on each CPU may be chosen, for its
// new site.
TEST_F(BlockTest, ALongBlockThatEndsBehindItsSessionsEndIsReported) {
  switch_->set_rate(kNoBlocks);
  begin(kBit, 0);
  std::vector<std::unique_ptr<BlockedReader>> readers(2 + 2 * std::thread::hardware_concurrency());
  for (auto& reader : readers) reader = std::make_unique<BlockedReader>();
  filter_->live = 0;
  ++filter_->match_generation;
  std::this_thread::sleep_for(milliseconds(20));  // longer than long_ns
  const std::uint64_t end_ns = block_clock_ns();
  const std::uint64_t counted = switch_->switches().of_session[kSlot].long_unsampled.count;
  std::size_t found = 0;
  for (auto& reader : readers) {
    const std::uint32_t tid = reader->tid();
    reader->wake();
    records_->consume();
    const auto wholes = records_->wholes_of(tid);
    found += static_cast<std::size_t>(std::ranges::count_if(
        wholes, [&](const SentWholeBlock* whole) { return whole->block.end_ns >= end_ns; }));
  }
  EXPECT_GE(found, 2U);
  EXPECT_EQ(switch_->switches().of_session[kSlot].long_unsampled.count, counted);
  end();
  expect_balance();
}

// Finds: a stall that is lost because the ring had no room when it began.
TEST_F(BlockTest, ALongBlockWhoseStartHadNoRoomIsReportedWhole) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before)) ++cpu;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);  // and so the threads that it starts
  begin(kBit, 0);
  for (int tries = 0; tries < 1000 && switch_->counters().lost[PROFD_LOSS_RING_SHARE] == 0;
       ++tries) {
    (void)in_a_thread(1000, [] { sleep_for_ns(1); });
  }
  ASSERT_GT(switch_->counters().lost[PROFD_LOSS_RING_SHARE], 0U);
  BlockedReader reader;
  const std::uint32_t tid = reader.tid();
  records_->consume();
  std::this_thread::sleep_for(milliseconds(20));  // longer than long_ns
  reader.wake();
  end();
  ::sched_setaffinity(0, sizeof(before), &before);
  const auto wholes = records_->wholes_of(tid);
  ASSERT_EQ(wholes.size(), 1U);
  EXPECT_GE(wholes[0]->block.end_ns - wholes[0]->block.start_ns, 20 * kMillisecond);
  EXPECT_EQ(wholes[0]->block.call, SYS_read);
  expect_balance();
}

// Finds: an end without room where starts have filled their part of the ring, so that a block whose
// stack was sent is lost.
TEST_F(BlockTest, AnEndHasRoomWhereStartsHaveNone) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(allowed_cpus().front(), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);  // and so the threads that it starts
  begin(kBit, 0);
  BlockedReader reader;
  const std::uint32_t tid = reader.tid();
  const auto open = listed(tid);
  for (int tries = 0; tries < 1000 && switch_->counters().lost[PROFD_LOSS_RING_SHARE] == 0;
       ++tries) {
    (void)in_a_thread(1000, [] { sleep_for_ns(1); });
  }
  ASSERT_GT(switch_->counters().lost[PROFD_LOSS_RING_SHARE], 0U);
  reader.wake();
  end();
  ::sched_setaffinity(0, sizeof(before), &before);
  ASSERT_TRUE(open);
  EXPECT_TRUE(records_->ends.contains(open->block.id));
  EXPECT_EQ(switch_->switches().ends_lost, 0U);
  expect_balance();
}

// Finds: a thread that is not watched because it started in the session; and, as each test does,
// one of another process that is sampled.
TEST_F(BlockTest, ThreadsThatStartInASessionAreSampled) {
  begin(kBit, 0);
  std::vector<std::uint32_t> tids;
  for (int i = 0; i < 10; ++i) {
    tids.push_back(in_a_thread(2, [] { sleep_for_ns(kMillisecond); }).tid);
  }
  end();
  for (const std::uint32_t tid : tids) EXPECT_FALSE(records_->ended(tid).empty());
  expect_balance();
}

}  // namespace
}  // namespace profd::test
