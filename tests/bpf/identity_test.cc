// The process identity in samples: across exec, and inside a PID namespace.

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "formats/proc/stat.h"
#include "tests/bpf/sampling_test.h"
#include "tests/bpf/workload.h"
#include "tests/collectors/begun_start.h"

namespace profd::test {
namespace {

using IdentityTest = SamplingTest;
using std::chrono::milliseconds;

TEST_F(IdentityTest, TheStartTimeIsTheUnroundedOneOfTheKernel) {
  const Workload workload({"spin"});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  collect(workload.pid(), 10);
  stop_balanced(slot);
  const std::uint64_t tick_ns =
      1'000'000'000ULL / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  EXPECT_EQ(
      sink_.samples.front().view.process.start_ns / tick_ns,
      read_process_stat("/proc/" + std::to_string(workload.pid()) + "/stat").value().start_ticks);
}

TEST_F(IdentityTest, AnExecChangesTheImageOfAProcess) {
  const Workload workload({"exec-later"});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  collect(workload.pid(), 20);
  workload.signal(SIGUSR1);
  std::set<std::uint32_t> images;
  collect_until([&] {
    for (const StoredSample& sample : sink_.samples) images.insert(sample.view.process.exec_id);
    return images.size() == 2;
  });
  stop_balanced(slot);
  std::set<std::uint64_t> starts;
  for (const StoredSample& sample : sink_.samples) starts.insert(sample.view.process.start_ns);
  EXPECT_EQ(starts.size(), 1U);
  EXPECT_EQ(*images.rbegin(), *images.begin() + 1);
  EXPECT_EQ(sink_.unannounced(), 0U);
}

TEST_F(IdentityTest, KernelThreadsAreProcessesWithoutAUserStack) {
  const Workload workload({"exits"});  // much memory to give back: kernel threads have work
  const SessionSlot slot = start(target_of_all());
  collect_until([&] {
    return std::ranges::any_of(sink_.samples, [](const StoredSample& sample) {
      return sample.view.context == PROFD_CONTEXT_KTHREAD;
    });
  });
  stop_balanced(slot);
  for (const StoredSample& sample : sink_.samples) {
    if (sample.view.context != PROFD_CONTEXT_KTHREAD) continue;
    EXPECT_TRUE(sample.view.user_frames.empty());
  }
  EXPECT_TRUE(std::ranges::any_of(sink_.processes, &StoredProcess::kernel_thread));
}

// Runs a Sampler in its own PID namespace. The exit code identifies the check that failed.
int sample_inside_namespace(std::uint32_t outside) {
  if (::getpid() != 1) return 10;
  RecordingSink sink;
  const auto sampler = Sampler::open({}, sink);
  if (!sampler) return 11;
  const Workload workload({"spin"});
  if (workload.pid() == outside) return 12;
  const auto slot = (*sampler)->start(event_of("cpu-clock", 999), target_of_all());
  if (!slot) return 13;
  for (int i = 0; i < 3000 && sink.of_process(workload.pid()).size() < 50; ++i) {
    ::usleep(10'000);
    (*sampler)->drain();
  }
  const SlotLedger last = (*sampler)->stop(*slot);
  const SamplerLedger all = (*sampler)->ledger();
  if (last.taken != last.received + total(last.lost) || difference(all) != 0) return 14;
  if (sink.of_process(workload.pid()).size() < 50) return 15;
  // Pids in the new namespace are small, and no process of the host has one.
  for (const StoredSample& sample : sink.samples) {
    if (sample.view.process.tgid > 10 || sample.view.tid > 10) return 16;
  }
  if (all.outside_namespace == 0 || all.outside_namespace > all.filtered) return 17;
  const auto by_pid =
      start_and_begin(**sampler, event_of("cpu-clock", 999), target_of_pid(workload.pid()));
  if (!by_pid) return 18;
  const std::size_t before = sink.samples.size();
  for (int i = 0; i < 3000 && sink.samples.size() < before + 20; ++i) {
    ::usleep(10'000);
    (*sampler)->drain();
  }
  (*sampler)->stop(*by_pid);
  return sink.samples.size() < before + 20 ? 19 : 0;
}

TEST_F(IdentityTest, InAPidNamespacePidsAreItsOwnAndOtherTasksAreCountedAsOutside) {
  const Workload outside({"spin"});
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWPID) != 0) ::_exit(1);
    const pid_t inner = ::fork();
    if (inner == 0) ::_exit(sample_inside_namespace(outside.pid()));
    int status = 0;
    ::waitpid(inner, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace profd::test
