// Windows of blocks on this kernel: a block that goes on is in each window, with its part.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/bpf/blocked_reader.h"
#include "tests/bpf/sampling_test.h"

namespace profd::test {
namespace {

using std::chrono::milliseconds;

class BlockWindowsTest : public SamplingTest {
 protected:
  struct Sum {
    std::uint64_t blocks = 0;
    std::uint64_t ns = 0;
    bool is_ongoing = false;
  };
  // Of a thread in a slot, of all that was delivered since the last call.
  Sum take_sum(std::uint32_t tid, SessionSlot slot) {
    Sum sum;
    for (const StoredSample& sample : sink_.samples) {
      const SampleView& view = sample.view;
      if (view.tid != tid || view.sessions != 1U << slot) continue;
      sum.blocks += view.count;
      sum.ns += view.block.ns;
      sum.is_ongoing = sum.is_ongoing || view.block.is_ongoing;
    }
    sink_.samples.clear();
    return sum;
  }
};

constexpr int kMsOfWindow = 300;
constexpr std::uint64_t kNsOfWindow = 1'000'000 * std::uint64_t{kMsOfWindow};

// Finds: a block that one window alone has, or both whole; one that is lost where a slot is used
// again; and a kernel that does not list it after a move.
TEST_F(BlockWindowsTest, ABlockIsInEachWindowThatItGoesOnIn) {
  BlockedReader sleeper;
  Target target = target_of_all();
  target.is_window = true;
  const auto began = std::chrono::steady_clock::now();
  SessionSlot slot = start(target, event_of("off-cpu", 0));
  std::uint64_t ns = 0;
  for (int window = 0; window < 4; ++window) {
    collect_for(milliseconds(kMsOfWindow));
    const auto next = sampler_->move_to_new_slot(slot);
    ASSERT_TRUE(next) << next.error().message;
    collect_until([&] { return sampler_->is_settled(slot); });
    (void)stop_balanced(slot);
    const Sum sum = take_sum(sleeper.tid(), slot);
    EXPECT_EQ(sum.blocks, 1U) << window;
    EXPECT_GE(sum.ns, kNsOfWindow / 10 * 9) << window;
    EXPECT_TRUE(sum.is_ongoing) << window;
    ns += sum.ns;
    slot = *next;
  }
  sleeper.wake();
  collect_until([&] { return !sink_.samples.empty(); });
  (void)stop_balanced(slot);
  const Sum last = take_sum(sleeper.tid(), slot);
  EXPECT_GE(last.blocks, 1U);
  ns += last.ns;
  const auto passed = std::chrono::steady_clock::now() - began;
  EXPECT_LE(ns, static_cast<std::uint64_t>(
                    std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count()));
}

// Finds: a hang that counts only when it ends, a part that two lists give, and one that neither
// gives.
TEST_F(BlockWindowsTest, ABlockThatGoesOnIsInEachPartOfASession) {
  BlockedReader sleeper;
  const auto began = std::chrono::steady_clock::now();
  const SessionSlot slot =
      start(target_of_pid(static_cast<std::uint32_t>(::getpid())), event_of("off-cpu", 0));
  constexpr milliseconds kPart = Sampler::kListInterval + milliseconds(100);
  constexpr auto kNsOfPart =
      static_cast<std::uint64_t>(std::chrono::nanoseconds(Sampler::kListInterval).count());
  std::uint64_t ns = 0;
  for (int part = 0; part < 3; ++part) {
    collect_for(kPart);
    sampler_->list_blocks(slot);
    collect_until([&] { return !sampler_->is_listing_blocks(slot); });
    const OngoingBlocks copy = sampler_->ongoing_blocks(slot);
    const auto in_copy = std::ranges::find_if(
        copy.blocks, [&](const OngoingBlock& block) { return block.sample->tid == sleeper.tid(); });
    ASSERT_NE(in_copy, copy.blocks.end()) << part;
    EXPECT_EQ(take_sum(sleeper.tid(), slot).blocks, 0U) << part;
    while (sampler_->deliver_ongoing_blocks(slot)) {
    }
    const Sum sum = take_sum(sleeper.tid(), slot);
    EXPECT_EQ(sum.blocks, 1U) << part;
    EXPECT_EQ(sum.ns, in_copy->term.ns) << part;
    EXPECT_GE(sum.ns, kNsOfPart / 10 * 9) << part;
    EXPECT_TRUE(sum.is_ongoing) << part;
    ns += sum.ns;
  }
  sleeper.wake();
  (void)stop_balanced(slot);
  const Sum last = take_sum(sleeper.tid(), slot);
  EXPECT_GE(last.blocks, 1U);
  ns += last.ns;
  const auto passed = std::chrono::steady_clock::now() - began;
  EXPECT_LE(ns, static_cast<std::uint64_t>(
                    std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count()));
}

// Of blocks that all have their stack. Finds: terms of the kernel that begin when the slot is
// taken, while the threads of the targets are watched one after the other.
TEST_F(BlockWindowsTest, TheKernelsTermsBeginWithTheSession) {
  const Target target = target_of_pid(static_cast<std::uint32_t>(::getpid()));
  const SessionSlot first = start(target, event_of("off-cpu", 0));  // the programs are loaded then
  std::atomic<bool> is_over = false;
  std::vector<std::thread> sleepers(16);
  for (std::thread& sleeper : sleepers) {
    sleeper = std::thread([&is_over] {
      while (!is_over) std::this_thread::sleep_for(milliseconds(20));
    });
  }
  const SessionSlot slot = start(target, event_of("off-cpu", 0));
  collect_for(milliseconds(500));
  const SlotLedger ledger = stop_balanced(slot);
  is_over = true;
  for (std::thread& sleeper : sleepers) sleeper.join();
  (void)stop_balanced(first);
  ASSERT_TRUE(ledger.blocks);
  const BlockLedger& blocks = *ledger.blocks;
  EXPECT_GT(blocks.blocked.ns, 16 * kNsOfWindow);
  const auto ended = static_cast<double>(blocks.delivered.ns - blocks.ongoing.ns);
  EXPECT_NEAR(static_cast<double>(blocks.blocked.ns), ended, 20e6);
}

// The rate of windows holds while no session wants blocks: 200 walks in a burst and 2,000 a second
// would be those of a session.
TEST_F(BlockWindowsTest, TakeFewStacks) {
  Target target = target_of_all();
  target.is_window = true;
  const SessionSlot slot = start(target, event_of("off-cpu", 0));
  const std::uint64_t before = sampler_->off_cpu_stats().value().walks;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  collect_until([&] {
    for (int i = 0; i < 100; ++i) std::this_thread::sleep_for(std::chrono::microseconds(10));
    return std::chrono::steady_clock::now() >= end;
  });
  const std::uint64_t walks = sampler_->off_cpu_stats().value().walks - before;
  (void)stop_balanced(slot);
  const auto cpus = static_cast<std::uint64_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_CONF)));
  EXPECT_GE(walks, 20U);
  EXPECT_LE(walks, 1000 * cpus);  // about 200 a CPU; the scale of the chances adapts at first
}

}  // namespace
}  // namespace profd::test
