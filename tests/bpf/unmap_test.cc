// Unmapping of watched memory is reported, and nothing else.

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

// The test process watches itself.
class UnmapTest : public SamplingTest {
 protected:
  static constexpr std::uint64_t kPages = 16;

  void open_and_find_self(const SamplerOptions& options) {
    open(options);
    const auto pid = static_cast<std::uint32_t>(::getpid());
    const SessionSlot slot = start(target_of_pid(pid));
    collect(pid, 1);
    stop_balanced(slot);
    self_ = sink_.of_process(pid).front()->view.process;
    void* const memory = ::mmap(nullptr, kPages * kPage, PROT_NONE, kFresh, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    memory_ = reinterpret_cast<std::uint64_t>(memory);
    wait_until_attached();
  }
  void SetUp() override { open_and_find_self({}); }
  void TearDown() override { ::munmap(at(memory_), kPages * kPage); }

  // The programs are attached on another thread. They stay attached when nothing is watched.
  void wait_until_attached() {
    watch({pages(0, 1)});
    collect_until([this] {
      ::mmap(at(memory_), kPage, PROT_NONE, kFresh | MAP_FIXED, -1, 0);
      return !sink_.unmaps.empty();
    });
    watch({});
    sampler_->drain();
    sink_.unmaps.clear();
    before_ = sampler_->ledger();
  }
  // Since then.
  [[nodiscard]] SamplerLedger ledger() {
    SamplerLedger now = sampler_->ledger();
    now.unmap_records -= before_.unmap_records;
    now.unmap_records_lost -= before_.unmap_records_lost;
    return now;
  }

  void watch(std::vector<AddressRange> spans) {
    const auto watched = sampler_->watch_unmaps(self_, spans);
    ASSERT_TRUE(watched) << watched.error().message;
  }
  [[nodiscard]] AddressRange pages(std::uint64_t first, std::uint64_t count) const {
    return {.start = memory_ + first * kPage, .end = memory_ + (first + count) * kPage};
  }
  [[nodiscard]] std::vector<AddressRange> reported() {
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
  SamplerLedger before_;
};

TEST_F(UnmapTest, UnmappingAndMappingOverWatchedMemoryIsReported) {
  watch({pages(0, 4), pages(8, 2)});
  const std::uint64_t before = monotonic_ns();
  ASSERT_EQ(::munmap(at(pages(1, 1).start), kPage), 0);
  ASSERT_NE(::mmap(at(pages(3, 2).start), 2 * kPage, PROT_NONE, kFresh | MAP_FIXED, -1, 0),
            MAP_FAILED);
  ASSERT_EQ(::munmap(at(pages(9, 1).start), 1), 0);  // which takes the page
  const std::uint64_t after = monotonic_ns();
  EXPECT_EQ(reported(), (std::vector{pages(1, 1), pages(3, 2), pages(9, 1)}));
  std::uint64_t last = before;
  for (const UnmapView& unmap : sink_.unmaps) {
    EXPECT_GE(unmap.time_ns, last);
    last = unmap.time_ns;
  }
  EXPECT_LE(last, after);
  EXPECT_EQ(ledger().unmap_records, 3U);
  EXPECT_EQ(ledger().unmap_records_lost, 0U);
}

TEST_F(UnmapTest, OtherCallsAndOtherAddressesAreNotReported) {
  watch({pages(4, 2)});
  ASSERT_EQ(::munmap(at(pages(3, 1).start), kPage), 0);
  ASSERT_EQ(::munmap(at(pages(6, 1).start), kPage), 0);
  ASSERT_EQ(::mprotect(at(pages(4, 1).start), kPage, PROT_READ), 0);
  ASSERT_NE(::mmap(nullptr, kPage, PROT_NONE, kFresh, -1, 0), MAP_FAILED);
  ASSERT_EQ(::mmap(at(pages(4, 1).start), kPage, PROT_NONE, kFresh | MAP_FIXED_NOREPLACE, -1, 0),
            MAP_FAILED);
  EXPECT_EQ(reported(), std::vector<AddressRange>{});
  EXPECT_EQ(ledger().unmap_records, 0U);
}

TEST_F(UnmapTest, AProcessThatIsNotWatchedIsNotReported) {
  watch({pages(0, 4)});
  ProcessKey earlier = self_;  // of the same pid
  --earlier.start_ns;
  ASSERT_TRUE(sampler_->watch_unmaps(earlier, std::vector{pages(8, 4)}));
  ASSERT_EQ(::munmap(at(pages(8, 1).start), kPage), 0);
  watch({});
  ASSERT_EQ(::munmap(at(pages(0, 1).start), kPage), 0);
  EXPECT_EQ(reported(), std::vector<AddressRange>{});
}

TEST_F(UnmapTest, TheReportsOfAProcessAreLimitedPerSecond) {
  constexpr std::uint64_t kCalls = 20'000;
  watch({pages(0, 4)});
  const std::uint64_t before = monotonic_ns();
  for (std::uint64_t i = 0; i < kCalls; ++i) {
    ::munmap(at(memory_), kPage);
    if (i % 100 == 0) sampler_->drain();
  }
  const std::uint64_t seconds = (monotonic_ns() - before) / 1'000'000'000 + 2;
  const SamplerLedger counts = ledger();
  EXPECT_EQ(reported().size(), counts.unmap_records);
  EXPECT_GE(counts.unmap_records, PROFD_UNMAPS_PER_SECOND);
  EXPECT_LE(counts.unmap_records, PROFD_UNMAPS_PER_SECOND * seconds);
  EXPECT_EQ(counts.unmap_records + counts.unmap_records_lost, kCalls);
}

class UnmapSmallRingTest : public UnmapTest {
 protected:
  static constexpr std::size_t kRingBytes = 4096;
  void SetUp() override { open_and_find_self({.ring_bytes = kRingBytes}); }
};

TEST_F(UnmapSmallRingTest, UnmapReportsUseAtMostAQuarterOfTheRing) {
  constexpr std::uint64_t kCalls = 500;
  watch({pages(0, 4)});
  for (std::uint64_t i = 0; i < kCalls; ++i) ::munmap(at(memory_), kPage);
  const SamplerLedger counts = ledger();
  const auto cpus = static_cast<std::uint64_t>(::sysconf(_SC_NPROCESSORS_CONF));
  EXPECT_GT(counts.unmap_records, 0U);
  EXPECT_LE(counts.unmap_records * sizeof(profd_unmap), kRingBytes / 4 * cpus);
  EXPECT_EQ(counts.unmap_records + counts.unmap_records_lost, kCalls);
}

}  // namespace
}  // namespace profd::test
