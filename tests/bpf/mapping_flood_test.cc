// What the mappings of an unprivileged user may take of the ticks and the rings.

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <stdlib.h>

#include "tests/bpf/sampling_test.h"
#include "tests/bpf/workload.h"

namespace profd::test {
namespace {

using namespace std::chrono_literals;

constexpr uid_t kFloodUser = 12345;

class MappingFloodTest : public SamplingTest {
 protected:
  void SetUp() override {
    SamplingTest::SetUp();
    std::string pattern = "/tmp/profd-flood-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    ASSERT_EQ(::chmod(directory_.c_str(), 0777), 0);
  }
  void TearDown() override {
    floods_.clear();
    std::filesystem::remove_all(directory_);
  }

  // A process that runs code of 512 files at long paths and changes them all the time.
  void start_flood(uid_t uid) {
    const std::string place = directory_ / std::to_string(floods_.size());
    floods_.push_back(std::make_unique<Workload>(
        std::vector<std::string>{place, "60"},
        WorkloadOptions{.program = PROFD_TEST_MAPPING_FLOOD, .uid = uid, .gid = uid}));
  }
  // Not all processes: a test that runs beside this one may have floods of its own.
  [[nodiscard]] Target target_of_floods() const {
    Target target;
    for (const auto& flood : floods_) target.pids.push_back(flood->pid());
    return target;
  }
  [[nodiscard]] std::uint32_t flood_pid() const { return floods_.front()->pid(); }
  // Of the records of their mappings, without those that another CPU repeated.
  [[nodiscard]] std::uint64_t flood_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [id, mapping] : sink_.mappings) {
      const bool is_of_flood = std::ranges::any_of(
          floods_, [&](const auto& flood) { return flood->pid() == mapping.process.tgid; });
      if (is_of_flood) bytes += sizeof(profd_mapping) + mapping.names.size();
    }
    return bytes;
  }

 private:
  std::filesystem::path directory_;
  std::vector<std::unique_ptr<Workload>> floods_;
};

// bpf/credit.h has what a tick earns, and what each CPU gives at first.
TEST_F(MappingFloodTest, OfAUserTakesNoMoreThanItsTicksEarn) {
  for (int i = 0; i < 3; ++i) start_flood(kFloodUser);
  // A slow machine changes less between two ticks than a tick earns, if they are near each other.
  const SessionSlot slot = start(target_of_floods(), 49);
  collect_until([&] {
    return sink_.of_process(flood_pid()).size() >= 100 &&
           sampler_->ledger().mapping_records_limited > 1000;
  });
  const SlotLedger slot_ledger = stop_balanced(slot);
  const SamplerLedger ledger = sampler_->ledger();
  EXPECT_GT(ledger.mapping_records_limited, 1000U);
  constexpr std::uint64_t kOfTick = 3072;
  constexpr std::uint64_t kAtFirst = 65536;
  EXPECT_LT(flood_bytes(), ledger.taken * kOfTick + std::thread::hardware_concurrency() * kAtFirst);
  EXPECT_EQ(slot_ledger.lost[PROFD_LOSS_RING_FULL], 0U);
}

// Root's are not limited: this is the control, with the same programs.
TEST_F(MappingFloodTest, OfRootIsNotLimited) {
  start_flood(0);
  const SessionSlot slot = start(target_of_floods());
  collect(flood_pid(), 200);
  stop_balanced(slot);
  EXPECT_EQ(sampler_->ledger().mapping_records_limited, 0U);
}

TEST_F(MappingFloodTest, OfOneUserLeavesThoseOfAnotherAlone) {
  for (int i = 0; i < 3; ++i) start_flood(kFloodUser);
  const Workload other({"spin"}, {.uid = kFloodUser + 1, .gid = kFloodUser + 1});
  Target both = target_of_floods();
  both.pids.push_back(other.pid());
  const SessionSlot slot = start(both);
  collect(flood_pid(), 1000);
  collect(other.pid(), 100);
  stop_balanced(slot);
  std::size_t met = 0;
  for (const StoredSample* sample : sink_.of_process(other.pid())) {
    for (const std::uint64_t id : sample->view.mapping_ids) {
      EXPECT_TRUE(sink_.mappings.contains(id));
      ++met;
    }
  }
  EXPECT_GE(met, 90U);  // one for each sample that has a user stack
}

}  // namespace
}  // namespace profd::test
