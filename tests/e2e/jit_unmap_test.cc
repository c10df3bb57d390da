// Unmapped memory loses the names of its code: code that runs there later, without a record, has no
// name.

#include <signal.h>
#include <time.h>

#include <chrono>
#include <string>

#include "tests/e2e/judged_stacks.h"
#include "tests/e2e/recording.h"

namespace profd::e2e {
namespace {

class JitUnmapTest : public RecordingTest {};

// The CPU time that a process has used so far; 0 when it is gone.
std::chrono::nanoseconds cpu_time_of(pid_t pid) {
  clockid_t clock = 0;
  timespec used{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return {};
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

TEST_F(JitUnmapTest, CodeWithoutARecordHasNoNameWhereOtherCodeWasUnmapped) {
  Process::Options options;
  options.directory = directory_.path();
  const Process reuse({workload("reuse"), "1000", "silently"}, options);
  const Ended started =
      daemon_.profctl({"start", "-F", "1999", "--pid", std::to_string(reuse.pid())});
  ASSERT_EQ(started.status, 0) << started.err;
  const std::string session = started.out.substr(0, started.out.find('\n'));
  ASSERT_TRUE(eventually([&] { return daemon_.status().unmaps.reported > 0; }));
  const auto before = cpu_time_of(reuse.pid());
  ASSERT_EQ(::kill(reuse.pid(), SIGUSR1), 0);
  // From the signal on, half of the code has no record. 3 s of CPU time are about 6000 samples; as
  // little as a third of them lies in JIT code, the rest in the functions that it calls.
  ASSERT_TRUE(
      eventually([&] { return cpu_time_of(reuse.pid()) > before + std::chrono::seconds(3); },
                 std::chrono::minutes(4)))
      << "the process got less than 3 s of CPU time in 4 minutes";
  const Ended stopped = daemon_.profctl({"stop", session, "-o", output_});
  ASSERT_EQ(stopped.status, 0) << stopped.err;
  const std::vector<ProfileSummary> profiles = profiles_of(read_summary(output_), "reuse");
  ASSERT_EQ(profiles.size(), 1U);
  ASSERT_TRUE(profiles[0].jit);
  EXPECT_EQ(daemon_.status().unmaps.lost, 0U);
  const std::string traces =
      run({GO_PPROF_BINARY, "-traces", "-sample_index=samples", file(profiles[0])}).out;
  const Judged judged = judge(traces, verdict_of_reuse);
  EXPECT_EQ(judged.wrong, 0U) << judged.first_wrong;
  EXPECT_GT(judged.right, 200U);
  EXPECT_LT(profiles[0].jit->named_samples + 300, profiles[0].jit->samples);
}

}  // namespace
}  // namespace profd::e2e
