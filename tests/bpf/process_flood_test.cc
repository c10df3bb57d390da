// What the process records of an unprivileged user may take of the rings.

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "tests/bpf/sampling_test.h"
#include "tests/bpf/workload.h"

namespace profd::test {
namespace {

constexpr uid_t kRenamingUser = 12346;

class ProcessFloodTest : public SamplingTest {
 protected:
  static constexpr std::size_t kRingBytes = 128 << 10;

  void SetUp() override { open({.ring_bytes = kRingBytes}); }

  SessionSlot start_of_user(const Workload& workload, std::uint64_t frequency_hz) {
    Target target = target_of_pid(workload.pid());
    target.restrict_to = ProcessOwner{.uid = kRenamingUser, .gid = kRenamingUser};
    return start(target, frequency_hz);
  }
  static void wait_undrained(const std::function<bool()>& condition) {
    const auto guard = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > guard) FAIL() << "not within a minute";
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  [[nodiscard]] bool has_record_of(const Workload& workload) const {
    return std::ranges::any_of(sink_.processes, [&](const StoredProcess& process) {
      return process.process.tgid == workload.pid();
    });
  }
};

// All on one CPU, so in one ring. What the user's sessions send fills half of it, and then the
// process would fill the rest with its records.
TEST_F(ProcessFloodTest, AProcessThatChangesItsNameTakesNoSamplesOfRoot) {
  const std::size_t cpu = allowed_cpus().front();
  const WorkloadOptions as_user{.uid = kRenamingUser, .gid = kRenamingUser};
  const Workload renaming({"rename"}, as_user);
  const Workload late({"spin"}, as_user);
  const Workload roots({"spin"});
  for (const Workload* workload : {&renaming, &late, &roots}) run_on(workload->pid(), cpu);
  const SessionSlot first = start_of_user(renaming, 999);
  const SessionSlot second = start_of_user(renaming, 998);
  const SessionSlot of_root = start(target_of_pid(roots.pid()), 49);
  collect(renaming.pid(), 20);
  collect(roots.pid(), 20);

  const std::uint64_t before = sampler_->slot_ledger(of_root).taken;
  wait_undrained([&] {
    return sampler_->ledger().process_records_lost >= 1000 &&
           sampler_->slot_ledger(of_root).taken >= before + 50;
  });
  const SessionSlot of_late = start(target_of_pid(late.pid()), 49);
  wait_undrained([&] { return sampler_->slot_ledger(of_late).taken >= 10; });
  EXPECT_GT(sampler_->slot_ledger(first).lost[PROFD_LOSS_RING_SHARE], 100U);
  EXPECT_FALSE(has_record_of(late));

  collect_until([&] { return has_record_of(late); });  // is sent when there is room
  EXPECT_EQ(total(stop_balanced(of_root).lost), 0U);
  EXPECT_EQ(total(stop_balanced(of_late).lost), 0U);
  stop_balanced(first);
  stop_balanced(second);
  EXPECT_GE(sink_.of_process(late.pid()).size(), 10U);
}

}  // namespace
}  // namespace profd::test
