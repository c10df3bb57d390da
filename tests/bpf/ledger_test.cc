// Every tick is accounted for exactly, and a record that disappears without a count is noticed.

#include <bpf/bpf.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <thread>
#include <vector>

#include "collectors/bpf/programs.h"
#include "tests/bpf/sampling_test.h"
#include "tests/bpf/workload.h"
#include "tests/collectors/settled_stop.h"

namespace profd::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LedgerTest : public SamplingTest {
 protected:
  // While nobody drains. Fails the test after a minute.
  static void wait_until(const std::function<bool()>& condition) {
    const auto guard = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), guard);
      std::this_thread::sleep_for(milliseconds(10));
    }
  }
};

TEST_F(LedgerTest, TheLedgerOfAForkStormBalancesExactly) {
  // With room for all samples: on a busy host this test may drain late.
  open({.ring_bytes = std::size_t{8} << 20, .bpf_object = {}});
  const Workload first({"storm"});
  const Workload second({"storm"});
  const SessionSlot all = start(target_of_all());
  const SessionSlot followed = start(target_of_pid(first.pid()), 1999);
  collect_for(seconds(3));
  collect_until([&] {
    return sampler_->slot_ledger(all).received > 500 &&
           sampler_->slot_ledger(followed).received > 50;
  });
  const SlotLedger of_all = stop_balanced(all);
  const SlotLedger of_followed = stop_balanced(followed);
  EXPECT_GT(of_all.received, 500U);
  EXPECT_GT(of_followed.received, 50U);
  EXPECT_EQ(total(of_all.lost) + total(of_followed.lost), 0U);
  EXPECT_EQ(sink_.unannounced(), 0U);
  const SamplerLedger ledger = sampler_->ledger();
  EXPECT_EQ(ledger.sent, ledger.received);
  EXPECT_EQ(ledger.not_followed, 0U);
  EXPECT_EQ(of_all.received + of_followed.received, sink_.samples.size());
}

TEST_F(LedgerTest, EachTickIsInExactlyOneSlotWhileASessionMovesBetweenSlots) {
  const Workload one({"spin"});
  const Workload another({"spin"});
  const SessionSlot witness = start(target_of_all());
  SessionSlot slot = start(target_of_all());
  std::uint64_t taken = 0;
  for (int i = 0; i < 20 || (taken <= 1000 && i < 1000); ++i) {
    collect_for(milliseconds(50));
    const auto next = sampler_->move_to_new_slot(slot);
    ASSERT_TRUE(next) << next.error().message;
    collect_until([&] { return sampler_->is_settled(slot); });
    taken += stop_balanced(slot).taken;
    slot = *next;
  }
  taken += stop_balanced(slot).taken;
  stop_balanced(witness);
  // Each tick between the first and the last is in exactly one slot.
  std::map<std::uint64_t, int> slots_by_time;
  for (const StoredSample& sample : sink_.samples) {
    const int others = std::popcount(sample.view.sessions & ~(1U << witness));
    slots_by_time[sample.view.time_ns] = std::max(others, slots_by_time[sample.view.time_ns]);
    EXPECT_LE(others, 1);
  }
  const auto is_inside = [](const auto& entry) { return entry.second != 0; };
  const auto first = std::ranges::find_if(slots_by_time, is_inside);
  const auto last = std::find_if(slots_by_time.rbegin(), slots_by_time.rend(), is_inside).base();
  EXPECT_EQ(std::count_if(first, last, is_inside), std::distance(first, last));
  EXPECT_GT(taken, 1000U);
}

TEST_F(LedgerTest, EverySampleInUserContextHasAUserStack) {
  const Workload storm({"storm"});
  const Workload faults({"faults"});
  const SessionSlot slot = start(target_of_all());
  collect_for(seconds(2));
  stop_balanced(slot);
  std::map<int, int> races;
  for (const StoredSample& sample : sink_.samples) {
    const bool has_stack = sample.view.context < PROFD_CONTEXT_KTHREAD;
    EXPECT_EQ(!sample.view.user_frames.empty(), has_stack) << sample.view.context;
    EXPECT_EQ(sample.view.user_end != PROFD_END_NO_USER_STACK, has_stack) << sample.view.context;
    ++races[sample.view.user_end];
  }
  // The mappings of these processes change all the time; still less than 1 % of the walks meet a
  // change.
  EXPECT_LT(races[PROFD_END_MAPPING_RACE] * 100, static_cast<int>(sink_.samples.size()));
}

TEST_F(LedgerTest, SamplesThatDoNotFitInTheRingAreCountedExactly) {
  open({.ring_bytes = 4096, .bpf_object = {}});
  const Workload workload({"recurse", "100"});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  constexpr auto kFull = static_cast<std::size_t>(Loss::kRingFull);
  wait_until([&] { return sampler_->slot_ledger(slot).lost[kFull] > 100; });
  const SlotLedger last = stop_balanced(slot);
  const auto full = last.lost[kFull];
  EXPECT_GT(full, 100U);
  EXPECT_EQ(total(last.lost), full);
  EXPECT_EQ(last.received, sink_.samples.size());
  const SamplerLedger ledger = sampler_->ledger();
  EXPECT_EQ(ledger.lost[kFull], full);
}

TEST_F(LedgerTest, ADrainEndsWhileSamplesAreLeftAndTheNextOneGoesOn) {
  const Workload workload({"threads", "4"});
  const SessionSlot slot = start(target_of_pid(workload.pid()), 4999);
  collect(workload.pid(), 100);  // its files have tables then
  wait_until([&] { return sampler_->slot_ledger(slot).taken > 2000; });
  sink_.pause = milliseconds(1);
  const std::size_t before = sink_.samples.size();
  EXPECT_TRUE(sampler_->drain());
  const std::size_t first = sink_.samples.size();
  EXPECT_GT(first, before);
  EXPECT_TRUE(sampler_->drain());
  EXPECT_GT(sink_.samples.size(), first);
  sink_.pause = {};
  stop_balanced(slot);
  EXPECT_GT(sink_.samples.size(), 1000U);
}

// As at a shutdown, which waits for nothing.
TEST_F(LedgerTest, AStopTakesWhatTheRingsHoldInSeveralDrains) {
  const Workload workload({"threads", "4"});
  const SessionSlot slot = start(target_of_pid(workload.pid()), 199);
  collect(workload.pid(), 20);  // its files have tables then
  const std::size_t before = sink_.samples.size();
  wait_until([&] { return sampler_->slot_ledger(slot).taken >= before + 100; });
  sink_.pause = milliseconds(1);
  sampler_->end_matching(slot);
  stop_balanced(slot);
  EXPECT_GT(sink_.samples.size(), before + 64) << "more than a drain takes";
}

TEST_F(LedgerTest, RecordsThatDisappearShowAsADifference) {
  std::ifstream file(PROFD_TEST_DROPPING_OBJECT, std::ios::binary);
  const std::vector<char> object((std::istreambuf_iterator<char>(file)),
                                 std::istreambuf_iterator<char>());
  ASSERT_FALSE(object.empty());
  open({.bpf_object = std::as_bytes(std::span(object))});
  const Workload workload({"spin"});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  collect(workload.pid(), 200);
  const SlotLedger last = stop_when_settled(*sampler_, slot);
  const std::uint64_t missing = last.taken - last.received - total(last.lost);
  EXPECT_GE(missing, last.taken / 12);
  EXPECT_LE(missing, last.taken / 8);
  const SamplerLedger ledger = sampler_->ledger();
  EXPECT_EQ(ledger.sent - ledger.received, missing);
}

// A drain takes longer than the CPUs need to fill their rings again.
TEST_F(LedgerTest, ARingThatNeverEmptiesDoesNotHoldUpTheOthers) {
  const Workload first({"spin"});
  const Workload second({"spin"});
  const std::vector<std::size_t> cpus = allowed_cpus();
  ASSERT_GE(cpus.size(), 2U) << "this test needs two CPUs";
  run_on(first.pid(), cpus.front());
  run_on(second.pid(), cpus.back());
  Target target;
  target.pids = {first.pid(), second.pid()};
  const SessionSlot slot = start(target);
  sink_.pause = milliseconds(3);
  collect_until([&] {
    return sink_.of_process(first.pid()).size() >= 40 &&
           sink_.of_process(second.pid()).size() >= 40;
  });
  sink_.pause = {};
  stop_balanced(slot);
}

TEST_F(LedgerTest, ASlotWithOutstandingSamplesIsNotReused) {
  std::ifstream file(PROFD_TEST_DROPPING_OBJECT, std::ios::binary);
  const std::vector<char> object((std::istreambuf_iterator<char>(file)),
                                 std::istreambuf_iterator<char>());
  open({.bpf_object = std::as_bytes(std::span(object))});
  const Workload workload({"spin"});
  const SessionSlot first = start(target_of_pid(workload.pid()));
  collect(workload.pid(), 50);
  stop_when_settled(*sampler_, first);
  const SessionSlot second = start(target_of_pid(workload.pid()));
  EXPECT_NE(second, first);
  stop_when_settled(*sampler_, second);
}

// The CPU time of a process as the kernel counts it, in seconds.
double cpu_seconds_of(std::uint32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/schedstat");
  double nanoseconds = 0;
  EXPECT_TRUE(file >> nanoseconds);
  return nanoseconds / 1e9;
}

TEST_F(LedgerTest, AProcessGetsAsManyTicksAsItsCpuTimeTimesTheFrequency) {
  constexpr double kCpuSeconds = 0.5;
  const Workload workload({"spin"});
  const double before_start = cpu_seconds_of(workload.pid());
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  const double after_start = cpu_seconds_of(workload.pid());
  // On a busy machine this takes longer: the process may have a small share of a CPU.
  collect_until([&] { return cpu_seconds_of(workload.pid()) >= after_start + kCpuSeconds; });
  const double before_stop = cpu_seconds_of(workload.pid());
  const auto taken = static_cast<double>(stop_balanced(slot).taken);
  const double after_stop = cpu_seconds_of(workload.pid());
  // The kernel skips a few ticks, and a hypervisor may delay some.
  EXPECT_GE(taken, (before_stop - after_start) * 999 * 0.8);
  EXPECT_LE(taken, (after_stop - before_start) * 999 * 1.1);
}

}  // namespace
}  // namespace profd::test
