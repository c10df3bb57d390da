// A watched process tells when it gives up memory, and nobody else does.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "collectors/host/clock.h"
#include "tests/bpf/sampling_test.h"

namespace profd::test {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr int kFresh = MAP_PRIVATE | MAP_ANONYMOUS;

std::uint64_t monotonic_ns() { return static_cast<std::uint64_t>(now_ns(CLOCK_MONOTONIC)); }

void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// Of ourselves: we are the process that is watched.
class UnmapTest : public SamplingTest {
 protected:
  static constexpr std::uint64_t kPages = 16;

  void open_and_learn(const SamplerOptions& options) {
    open(options);
    const auto pid = static_cast<std::uint32_t>(::getpid());
    const SessionSlot slot = start(target_of_pid(pid));
    collect(pid, 1);
    stop_balanced(slot);
    self_ = sink_.of_process(pid).front()->view.process;
    void* const memory = ::mmap(nullptr, kPages * kPage, PROT_NONE, kFresh, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    memory_ = reinterpret_cast<std::uint64_t>(memory);
  }
  void SetUp() override { open_and_learn({}); }
  void TearDown() override { ::munmap(at(memory_), kPages * kPage); }

  void watch(std::vector<AddressRange> spans) {
    const auto watched = sampler_->watch_unmaps(self_, spans);
    ASSERT_TRUE(watched) << watched.error().message;
  }
  [[nodiscard]] AddressRange pages(std::uint64_t first, std::uint64_t count) const {
    return {.start = memory_ + first * kPage, .end = memory_ + (first + count) * kPage};
  }
  [[nodiscard]] std::vector<AddressRange> told() {
    sampler_->drain();
    std::vector<AddressRange> spans;
    for (const UnmapView& unmap : sink_.unmaps) {
      EXPECT_EQ(unmap.process, self_);
      spans.push_back({.start = unmap.start, .end = unmap.end});
    }
    return spans;
  }

  ProcessKey self_;
  std::uint64_t memory_ = 0;
};

TEST_F(UnmapTest, MemoryThatIsUnmappedOrMappedAnewIsTold) {
  watch({pages(0, 4), pages(8, 2)});
  const std::uint64_t before = monotonic_ns();
  ASSERT_EQ(::munmap(at(pages(1, 1).start), kPage), 0);
  ASSERT_NE(::mmap(at(pages(3, 2).start), 2 * kPage, PROT_NONE, kFresh | MAP_FIXED, -1, 0),
            MAP_FAILED);
  ASSERT_EQ(::munmap(at(pages(9, 1).start), 1), 0);  // which takes the page
  const std::uint64_t after = monotonic_ns();
  EXPECT_EQ(told(), (std::vector{pages(1, 1), pages(3, 2), pages(9, 1)}));
  std::uint64_t last = before;
  for (const UnmapView& unmap : sink_.unmaps) {
    EXPECT_GE(unmap.time_ns, last);
    last = unmap.time_ns;
  }
  EXPECT_LE(last, after);
  EXPECT_EQ(sampler_->ledger().unmap_records, 3U);
  EXPECT_EQ(sampler_->ledger().unmap_records_lost, 0U);
}

TEST_F(UnmapTest, WhatTakesNothingAwayAndOtherPlacesAreNotTold) {
  watch({pages(4, 2)});
  ASSERT_EQ(::munmap(at(pages(3, 1).start), kPage), 0);
  ASSERT_EQ(::munmap(at(pages(6, 1).start), kPage), 0);
  ASSERT_EQ(::mprotect(at(pages(4, 1).start), kPage, PROT_READ), 0);
  ASSERT_NE(::mmap(nullptr, kPage, PROT_NONE, kFresh, -1, 0), MAP_FAILED);
  ASSERT_EQ(::mmap(at(pages(4, 1).start), kPage, PROT_NONE, kFresh | MAP_FIXED_NOREPLACE, -1, 0),
            MAP_FAILED);
  EXPECT_EQ(told(), std::vector<AddressRange>{});
  EXPECT_EQ(sampler_->ledger().unmap_records, 0U);
}

TEST_F(UnmapTest, WhoIsNoLongerWatchedOrIsAnotherTellsNothing) {
  watch({pages(0, 4)});
  ProcessKey earlier = self_;  // of the same pid
  --earlier.start_ns;
  ASSERT_TRUE(sampler_->watch_unmaps(earlier, std::vector{pages(8, 4)}));
  ASSERT_EQ(::munmap(at(pages(8, 1).start), kPage), 0);
  watch({});
  ASSERT_EQ(::munmap(at(pages(0, 1).start), kPage), 0);
  EXPECT_EQ(told(), std::vector<AddressRange>{});
}

TEST_F(UnmapTest, AProcessThatGivesUpMemoryAllTheTimeIsTakenAtARate) {
  constexpr std::uint64_t kCalls = 20'000;
  watch({pages(0, 4)});
  const std::uint64_t before = monotonic_ns();
  for (std::uint64_t i = 0; i < kCalls; ++i) {
    ::munmap(at(memory_), kPage);
    if (i % 100 == 0) sampler_->drain();
  }
  const std::uint64_t seconds = (monotonic_ns() - before) / 1'000'000'000 + 2;
  const SamplerLedger ledger = sampler_->ledger();
  EXPECT_EQ(told().size(), ledger.unmap_records);
  EXPECT_GE(ledger.unmap_records, PROFD_UNMAPS_PER_SECOND);
  EXPECT_LE(ledger.unmap_records, PROFD_UNMAPS_PER_SECOND * seconds);
  EXPECT_EQ(ledger.unmap_records + ledger.unmap_records_lost, kCalls);
}

class UnmapSmallRingTest : public UnmapTest {
 protected:
  static constexpr std::size_t kRingBytes = 4096;
  void SetUp() override { open_and_learn({.ring_bytes = kRingBytes}); }
};

TEST_F(UnmapSmallRingTest, SamplesKeepTheirRoomInTheRing) {
  constexpr std::uint64_t kCalls = 500;
  watch({pages(0, 4)});
  for (std::uint64_t i = 0; i < kCalls; ++i) ::munmap(at(memory_), kPage);
  const SamplerLedger ledger = sampler_->ledger();
  const auto cpus = static_cast<std::uint64_t>(::sysconf(_SC_NPROCESSORS_CONF));
  EXPECT_GT(ledger.unmap_records, 0U);
  EXPECT_LE(ledger.unmap_records * sizeof(profd_unmap), kRingBytes / 4 * cpus);
  EXPECT_EQ(ledger.unmap_records + ledger.unmap_records_lost, kCalls);
}

}  // namespace
}  // namespace profd::test
