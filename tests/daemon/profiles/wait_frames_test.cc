// The stacks are written by hand from the sources of Linux 6.1 and 6.18, as bpf_get_stack() gives
// them at a switch, and bpf_get_task_stack() for a thread that sleeps.

#include "daemon/profiles/wait_frames.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "collectors/bpf/sample.h"

namespace profd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Names = std::vector<std::string>;

// The function of each frame of a stack, leaf first, has a page of its own.
class KernelStack {
 public:
  explicit KernelStack(Names names) : names_(std::move(names)) {
    for (std::size_t i = 0; i < names_.size(); ++i) frames_.push_back(kFirst + i * kBytes + 8);
  }

  // With the return address at the very end of the last function: its call is what counts.
  KernelStack& end_with_a_call() {
    frames_.back() = kFirst + names_.size() * kBytes;
    return *this;
  }

  [[nodiscard]] WaitFrames make_waits() const {
    return WaitFrames([this](std::uint64_t address) -> std::string_view {
      const std::uint64_t index = (address - kFirst) / kBytes;
      return index < names_.size() ? std::string_view(names_[index]) : std::string_view();
    });
  }

  [[nodiscard]] Names behind_scheduler() const {
    WaitFrames waits = make_waits();
    const auto left = waits.behind_scheduler(frames_);
    return {names_.end() - static_cast<std::ptrdiff_t>(left.size()), names_.end()};
  }

  [[nodiscard]] Wait wait(profd_block_state state = PROFD_BLOCK_SLEEPING) const {
    WaitFrames waits = make_waits();
    return waits.wait_of(state, waits.behind_scheduler(frames_));
  }

 private:
  static constexpr std::uint64_t kFirst = 0xffffffff81000000;
  static constexpr std::uint64_t kBytes = 0x1000;

  Names names_;
  std::vector<std::uint64_t> frames_;
};

// Behind what is above it in each stack of a block that was chosen.
KernelStack blocked_in(Names functions) {
  Names names = {"bpf_prog_6deef7357e7b4530_profd_switch", "bpf_trace_run4",
                 "__traceiter_sched_switch", "__schedule", "schedule"};
  names.insert(names.end(), functions.begin(), functions.end());
  for (const char* const outermost : {"do_syscall_64", "entry_SYSCALL_64_after_hwframe"}) {
    names.emplace_back(outermost);
  }
  return KernelStack(names);
}

TEST(WaitFrames, CutsTheSchedulerAndWhatTookTheStack) {
  EXPECT_THAT(blocked_in({"do_nanosleep", "hrtimer_nanosleep"}).behind_scheduler(),
              ElementsAre("do_nanosleep", "hrtimer_nanosleep", "do_syscall_64",
                          "entry_SYSCALL_64_after_hwframe"));
}

// Finds: a frame without a symbol, such as that of a trampoline, that ends the cut.
TEST(WaitFrames, CutsFramesWithoutNameAboveTheScheduler) {
  EXPECT_THAT(KernelStack({"bpf_prog_1_a", "", "bpf_trace_run4", "", "__schedule", "schedule",
                           "pipe_read", "vfs_read"})
                  .behind_scheduler(),
              ElementsAre("pipe_read", "vfs_read"));
}

TEST(WaitFrames, CutsEachWayToTheScheduler) {
  const std::vector<Names> ways = {
      {"__schedule", "schedule"},
      {"__schedule", "schedule_idle"},
      {"__schedule", "preempt_schedule_common", "__cond_resched"},
      {"__schedule", "preempt_schedule_common", "__cond_resched_rwlock_write"},
      {"__schedule", "schedule", "rt_mutex_schedule"},
      {"__schedule", "preempt_schedule_irq"},
      {"__schedule", "preempt_schedule", "preempt_schedule_thunk"},
      {"__schedule", "preempt_schedule_notrace", "preempt_schedule_notrace_thunk"},
      {"__schedule.constprop.0", "schedule.part.0"},
      {"__schedule", "schedule", "schedule_preempt_disabled"},
  };
  for (const Names& way : ways) {
    Names names = way;
    names.emplace_back("caller");
    EXPECT_THAT(KernelStack(names).behind_scheduler(), ElementsAre("caller")) << way.back();
  }
}

// Finds: a cut that goes on behind the scheduler, or to a later frame of another BPF program.
TEST(WaitFrames, KeepsAllThatIsNotOnTopOfTheScheduler) {
  EXPECT_THAT(KernelStack({"__schedule", "schedule", "bpf_prog_2_b", "bpf_trampoline_7", "x"})
                  .behind_scheduler(),
              ElementsAre("bpf_prog_2_b", "bpf_trampoline_7", "x"));
  EXPECT_THAT(KernelStack({"schedule_timeout", "io_schedule"}).behind_scheduler(),
              ElementsAre("schedule_timeout", "io_schedule"));
  EXPECT_THAT(KernelStack({"", ""}).behind_scheduler(), ElementsAre("", ""));
  EXPECT_THAT(KernelStack({}).behind_scheduler(), IsEmpty());
}

TEST(WaitFrames, CutsTheTracepointWhereTheSchedulerHasNoName) {
  EXPECT_THAT(
      KernelStack({"bpf_prog_1_a", "bpf_trace_run4", "", "do_nanosleep"}).behind_scheduler(),
      ElementsAre("", "do_nanosleep"));
}

TEST(WaitFrames, LooksNoFurtherThanTheSchedulerCanBe) {
  Names names(20, "recursion");
  names[15] = "schedule";
  EXPECT_EQ(KernelStack(names).behind_scheduler().size(), 4U);
  names[15] = "recursion";
  names[16] = "schedule";
  EXPECT_EQ(KernelStack(names).behind_scheduler().size(), 20U);
}

// Finds: the byte behind a call that never returns, which belongs to another function.
TEST(WaitFrames, AFrameIsTheCallBeforeItsAddress) {
  KernelStack stack({"__schedule", "do_nanosleep"});
  EXPECT_EQ(stack.end_with_a_call().wait(), Wait::kSleep);
}

struct WaitCase {
  const char* what;
  Wait wait;
  Names functions;
};

TEST(WaitFrames, TellsWhatLinux61WaitsFor) {
  const std::vector<WaitCase> table = {
      {"nanosleep", Wait::kSleep, {"do_nanosleep", "hrtimer_nanosleep", "common_nsleep"}},
      {"futex", Wait::kFutex, {"futex_wait_queue", "futex_wait", "do_futex", "__x64_sys_futex"}},
      {"futex with priority inheritance",
       Wait::kFutex,
       {"rt_mutex_slowlock_block.constprop.0", "rt_mutex_wait_proxy_lock", "futex_lock_pi",
        "do_futex", "__x64_sys_futex"}},
      {"epoll",
       Wait::kEpoll,
       {"schedule_hrtimeout_range_clock", "do_epoll_wait", "__x64_sys_epoll_wait"}},
      {"poll",
       Wait::kPoll,
       {"schedule_hrtimeout_range_clock", "poll_schedule_timeout.constprop.0", "do_sys_poll"}},
      {"select", Wait::kPoll, {"schedule_hrtimeout_range_clock", "do_select", "core_sys_select"}},
      {"pipe", Wait::kPipe, {"pipe_read", "vfs_read", "ksys_read"}},
      {"full pipe", Wait::kPipe, {"pipe_write", "vfs_write", "ksys_write"}},
      {"open of a FIFO", Wait::kPipe, {"wait_for_partner", "fifo_open", "do_dentry_open"}},
      {"TCP",
       Wait::kSocket,
       {"schedule_timeout", "wait_woken", "sk_wait_data", "tcp_recvmsg_locked", "tcp_recvmsg",
        "inet_recvmsg"}},
      {"UNIX socket",
       Wait::kSocket,
       {"schedule_timeout", "unix_stream_read_generic", "unix_stream_recvmsg"}},
      {"accept", Wait::kSocket, {"schedule_timeout", "inet_csk_accept", "inet_accept"}},
      {"UDP",
       Wait::kSocket,
       {"schedule_timeout", "__skb_wait_for_more_packets", "__skb_recv_udp", "udp_recvmsg"}},
      {"cold read",
       Wait::kDisk,
       {"io_schedule", "folio_wait_bit_common", "filemap_get_pages", "filemap_read",
        "ext4_file_read_iter"}},
      {"fsync", Wait::kDisk, {"jbd2_log_wait_commit", "ext4_sync_file", "do_fsync"}},
      {"direct read", Wait::kDisk, {"io_schedule_timeout", "blk_mq_get_tag", "submit_bio_noacct"}},
      {"page fault of a file",
       Wait::kPageFault,
       {"io_schedule", "folio_wait_bit_common", "filemap_fault", "__do_fault", "handle_mm_fault",
        "do_user_addr_fault", "exc_page_fault", "asm_exc_page_fault"}},
      {"userfaultfd",
       Wait::kPageFault,
       {"handle_userfault", "do_anonymous_page", "handle_mm_fault", "do_user_addr_fault",
        "exc_page_fault", "asm_exc_page_fault"}},
      {"page fault behind the lock of the mappings",
       Wait::kPageFault,
       {"rwsem_down_read_slowpath", "down_read_killable", "do_user_addr_fault", "exc_page_fault"}},
      {"lock of the mappings", Wait::kLock, {"rwsem_down_write_slowpath", "down_write_killable"}},
      {"mutex", Wait::kLock, {"__mutex_lock.constprop.0", "ext4_file_write_iter"}},
      {"semaphore", Wait::kLock, {"schedule_timeout", "__down_common", "down", "xfs_buf_lock"}},
      {"child", Wait::kChild, {"do_wait", "kernel_wait4", "__do_sys_wait4"}},
      {"stopping of a CPU", Wait::kOther, {"schedule_timeout", "__wait_for_common", "stop_cpus"}},
  };
  for (const WaitCase& c : table) EXPECT_EQ(blocked_in(c.functions).wait(), c.wait) << c.what;
}

TEST(WaitFrames, TellsWhatLinux618WaitsFor) {
  const std::vector<WaitCase> table = {
      {"nanosleep", Wait::kSleep, {"do_nanosleep", "hrtimer_nanosleep", "common_nsleep"}},
      {"futex", Wait::kFutex, {"futex_do_wait", "__futex_wait", "futex_wait", "do_futex"}},
      {"epoll", Wait::kEpoll, {"schedule_hrtimeout_range_clock", "ep_poll", "do_epoll_wait"}},
      {"pipe", Wait::kPipe, {"anon_pipe_read", "vfs_read", "ksys_read"}},
      {"FIFO", Wait::kPipe, {"anon_pipe_read", "fifo_pipe_read", "vfs_read"}},
      {"mutex",
       Wait::kLock,
       {"schedule_preempt_disabled", "__mutex_lock.constprop.0", "perf_event_ctx_lock_nested"}},
      {"child", Wait::kChild, {"do_wait", "kernel_wait4", "do_syscall_64"}},
      {"io_uring", Wait::kPoll, {"io_cqring_schedule_timeout", "io_cqring_wait"}},
      {"FUSE", Wait::kDisk, {"request_wait_answer", "fuse_simple_request", "fuse_lookup_name"}},
      {"server of FUSE", Wait::kPoll, {"fuse_dev_do_read", "fuse_dev_read", "vfs_read"}},
      {"9p", Wait::kDisk, {"p9_client_rpc", "p9_client_walk", "v9fs_vfs_lookup", "path_openat"}},
      {"CIFS", Wait::kDisk, {"netfs_wait_for_in_progress", "netfs_unbuffered_read"}},
      {"vfork",
       Wait::kChild,
       {"schedule_timeout", "__wait_for_common", "wait_for_completion_state", "kernel_clone",
        "__x64_sys_vfork"}},
      {"signal", Wait::kSleep, {"__x64_sys_rt_sigsuspend", "do_syscall_64"}},
      {"page faults of others", Wait::kPoll, {"userfaultfd_read_iter", "vfs_read", "ksys_read"}},
      {"completion",
       Wait::kOther,
       {"schedule_timeout", "__wait_for_common", "wait_for_completion", "__flush_work"}},
  };
  for (const WaitCase& c : table) EXPECT_EQ(blocked_in(c.functions).wait(), c.wait) << c.what;
}

// do_wait_for_common() waits for any completion, and only do_wait() for a child.
TEST(WaitFrames, ANameIsNotTheBeginningOfAnother) {
  EXPECT_EQ(blocked_in({"do_wait_for_common"}).wait(), Wait::kOther);
  EXPECT_EQ(blocked_in({"downgrade_anything"}).wait(), Wait::kOther);
}

TEST(WaitFrames, TellsItOfTheKernelsOwnListOfASleepersFrames) {
  EXPECT_EQ(KernelStack({"hrtimer_nanosleep", "common_nsleep"}).wait(), Wait::kSleep);
  EXPECT_EQ(KernelStack({"folio_wait_bit_common", "filemap_read"}).wait(PROFD_BLOCK_DISK),
            Wait::kDisk);
}

// Finds: a thread that waits for a CPU inside of a function that also waits for other things.
TEST(WaitFrames, OnlyAThreadThatSleepsWaitsForSomething) {
  const KernelStack stack = blocked_in({"pipe_read"});
  EXPECT_EQ(stack.wait(PROFD_BLOCK_SLEEPING), Wait::kPipe);
  EXPECT_EQ(stack.wait(PROFD_BLOCK_DISK), Wait::kPipe);
  EXPECT_EQ(stack.wait(PROFD_BLOCK_STOPPED), Wait::kNone);
  EXPECT_EQ(stack.wait(PROFD_BLOCK_RUNNABLE), Wait::kNone);
  EXPECT_EQ(stack.wait(PROFD_BLOCK_NONE), Wait::kNone);
  EXPECT_EQ(KernelStack({}).wait(), Wait::kOther);
}

}  // namespace
}  // namespace profd
