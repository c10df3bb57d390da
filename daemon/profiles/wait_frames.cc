#include "daemon/profiles/wait_frames.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "collectors/bpf/sample.h"

namespace profd {
namespace {

// The scheduler's own frames are among so many: the program, two of the tracepoint, and up to five
// of the scheduler, with room for trampolines.
constexpr std::size_t kMaxSchedulerFrames = 16;

// Names that end in '*' are those of all functions that begin so.
using Pattern = std::string_view;

// Above the scheduler: how our program is called.
constexpr auto kTracingNames = std::to_array<Pattern>(
    {"bpf_prog_*", "bpf_trace_run*", "bpf_trampoline_*", "__bpf_trace_*", "__traceiter_*"});

// io_schedule() is not among them: it says that the thread waits for a disk.
constexpr auto kSchedulerNames = std::to_array<Pattern>(
    {"__schedule", "__schedule_loop", "schedule", "schedule_idle", "schedule_preempt_disabled",
     "schedule_rtlock", "rt_mutex_schedule", "preempt_schedule", "preempt_schedule_common",
     "preempt_schedule_irq", "preempt_schedule_notrace", "preempt_schedule_thunk",
     "preempt_schedule_notrace_thunk", "__cond_resched*", "dynamic_cond_resched"});

constexpr auto kPageFaultNames =
    std::to_array<Pattern>({"exc_page_fault", "asm_exc_page_fault", "handle_userfault"});

struct NamedWait {
  Pattern pattern;
  Wait wait;
};

// From Linux 6.1 to 6.18. Functions that wait for anything (schedule_timeout, wait_woken,
// wait_for_completion, schedule_hrtimeout_range) are not here: their callers say for what. Nor is
// what a futex with priority inheritance shares with the locks of the kernel
// (rt_mutex_slowlock_block, rt_mutex_wait_proxy_lock).
constexpr auto kNamedWaits = std::to_array<NamedWait>({
    {"futex_*", Wait::kFutex},
    {"__futex_*", Wait::kFutex},
    {"do_futex", Wait::kFutex},
    {"ep_poll", Wait::kEpoll},
    {"do_epoll_*", Wait::kEpoll},
    {"do_poll", Wait::kPoll},
    {"do_sys_poll", Wait::kPoll},
    {"do_select", Wait::kPoll},
    {"core_sys_select", Wait::kPoll},
    {"poll_schedule_timeout", Wait::kPoll},
    {"eventfd_read", Wait::kPoll},
    {"timerfd_read*", Wait::kPoll},
    {"signalfd_*", Wait::kPoll},
    {"inotify_read", Wait::kPoll},
    {"userfaultfd_read*", Wait::kPoll},
    {"fanotify_read", Wait::kPoll},
    {"io_cqring_wait*", Wait::kPoll},
    {"fuse_dev_*", Wait::kPoll},  // a file system in user space waits for requests
    {"do_nanosleep", Wait::kSleep},
    {"hrtimer_nanosleep*", Wait::kSleep},
    {"common_nsleep*", Wait::kSleep},
    {"alarmtimer_do_nsleep", Wait::kSleep},
    {"do_sigtimedwait", Wait::kSleep},
    {"sigsuspend", Wait::kSleep},
    {"__x64_sys_rt_sigsuspend", Wait::kSleep},
    {"__do_sys_rt_sigsuspend", Wait::kSleep},
    {"__x64_sys_pause", Wait::kSleep},
    {"__do_sys_pause", Wait::kSleep},
    {"msleep*", Wait::kSleep},
    {"usleep_range*", Wait::kSleep},
    {"pipe_*", Wait::kPipe},
    {"anon_pipe_*", Wait::kPipe},
    {"fifo_*", Wait::kPipe},
    {"wait_for_partner", Wait::kPipe},
    {"n_tty_*", Wait::kPipe},
    {"tty_*", Wait::kPipe},
    {"lock_sock*", Wait::kLock},
    {"__lock_sock*", Wait::kLock},
    {"sk_wait_*", Wait::kSocket},
    {"sk_stream_wait_*", Wait::kSocket},
    {"__skb_wait_*", Wait::kSocket},
    {"__skb_recv_*", Wait::kSocket},
    {"skb_recv_*", Wait::kSocket},
    {"inet_*", Wait::kSocket},
    {"__inet_*", Wait::kSocket},
    {"unix_*", Wait::kSocket},
    {"__unix_*", Wait::kSocket},
    {"tcp_*", Wait::kSocket},
    {"udp_*", Wait::kSocket},
    {"__sock_*", Wait::kSocket},
    {"sock_*", Wait::kSocket},
    {"netlink_*", Wait::kSocket},
    {"packet_*", Wait::kSocket},
    {"vsock_*", Wait::kSocket},
    {"io_schedule*", Wait::kDisk},
    {"bit_wait_io*", Wait::kDisk},
    {"folio_wait_*", Wait::kDisk},
    {"__folio_lock*", Wait::kDisk},
    {"filemap_*", Wait::kDisk},
    {"wait_on_page*", Wait::kDisk},
    {"wait_on_buffer", Wait::kDisk},
    {"__wait_on_buffer", Wait::kDisk},
    {"balance_dirty_pages*", Wait::kDisk},
    {"submit_bio*", Wait::kDisk},
    {"blk_*", Wait::kDisk},
    {"blkdev_*", Wait::kDisk},
    {"jbd2_*", Wait::kDisk},
    {"start_this_handle", Wait::kDisk},
    {"add_transaction_credits", Wait::kDisk},
    {"wait_transaction_*", Wait::kDisk},
    {"do_get_write_access", Wait::kDisk},
    {"ext4_*", Wait::kDisk},
    {"xfs_*", Wait::kDisk},
    {"xlog_*", Wait::kDisk},
    {"btrfs_*", Wait::kDisk},
    {"f2fs_*", Wait::kDisk},
    {"nfs_*", Wait::kDisk},
    {"nfs4_*", Wait::kDisk},
    {"rpc_*", Wait::kDisk},
    {"netfs_*", Wait::kDisk},
    {"ceph_*", Wait::kDisk},
    {"p9_*", Wait::kDisk},
    {"cifs_*", Wait::kDisk},
    {"fuse_*", Wait::kDisk},
    {"request_wait_answer", Wait::kDisk},
    {"nvme_*", Wait::kDisk},
    {"do_io_getevents", Wait::kDisk},
    {"read_events", Wait::kDisk},
    {"rwsem_*", Wait::kLock},
    {"rwbase_*", Wait::kLock},
    {"down", Wait::kLock},
    {"down_*", Wait::kLock},
    {"__down*", Wait::kLock},
    {"percpu_*", Wait::kLock},
    {"__percpu_*", Wait::kLock},
    {"mutex_lock*", Wait::kLock},
    {"__mutex_lock*", Wait::kLock},
    {"ww_mutex_lock*", Wait::kLock},
    {"__ww_mutex_lock*", Wait::kLock},
    {"rt_mutex_lock*", Wait::kLock},
    {"rt_mutex_slowlock", Wait::kLock},
    {"__rt_mutex_slowlock*", Wait::kLock},
    {"rtlock_*", Wait::kLock},
    {"rt_spin_lock", Wait::kLock},
    {"do_wait", Wait::kChild},
    {"__do_wait", Wait::kChild},
    {"kernel_wait4", Wait::kChild},
    {"kernel_waitid", Wait::kChild},
    // Of vfork(), until the child has executed its program. It is mostly a part of the second one.
    {"wait_for_vfork_done", Wait::kChild},
    {"kernel_clone", Wait::kChild},
});

bool matches(Pattern pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return name == pattern;
  pattern.remove_suffix(1);
  return name.starts_with(pattern);
}

bool matches_one(std::span<const Pattern> patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [name](Pattern pattern) { return matches(pattern, name); });
}

// What the compiler makes of a function is called "do_wait.constprop.0", "pipe_read.part.0".
std::string_view without_clone_suffix(std::string_view name) {
  return name.substr(0, name.find('.'));
}

}  // namespace

bool is_of_blocks(const StackTable::Stack& stack) { return stack.state != PROFD_BLOCK_NONE; }

WaitFrames WaitFrames::by(KernelNames& names, std::span<const BpfFunction> loaded) {
  return WaitFrames([&names, loaded](std::uint64_t address) {
    const auto symbol = names.find(address, loaded);
    return symbol ? symbol->name : std::string_view();
  });
}

// The last scheduler's frame ends the cut: what it calls may have been preempted in turn.
std::span<const std::uint64_t> WaitFrames::behind_scheduler(
    std::span<const std::uint64_t> kernel_frames) {
  const std::size_t count = std::min(kernel_frames.size(), kMaxSchedulerFrames);
  std::size_t cut = 0;
  bool is_above = true;  // frames of tracing alone so far
  for (std::size_t i = 0; i < count; ++i) {
    const Role role = meaning_at(kernel_frames[i]).role;
    is_above = is_above && role == Role::kTracing;
    if (is_above || role == Role::kScheduler) cut = i + 1;
  }
  return kernel_frames.subspan(cut);
}

Wait WaitFrames::wait_of(unsigned state, std::span<const std::uint64_t> frames) {
  if (state != PROFD_BLOCK_SLEEPING && state != PROFD_BLOCK_DISK) return Wait::kNone;
  Wait wait = Wait::kOther;
  for (const std::uint64_t frame : frames) {
    const Meaning meaning = meaning_at(frame);
    if (meaning.is_page_fault) return Wait::kPageFault;
    if (wait == Wait::kOther) wait = meaning.wait;
  }
  return wait;
}

WaitFrames::Meaning WaitFrames::meaning_of(std::string_view name) {
  Meaning meaning;
  if (matches_one(kTracingNames, name)) {
    meaning.role = Role::kTracing;
  } else if (matches_one(kSchedulerNames, name)) {
    meaning.role = Role::kScheduler;
  }
  meaning.is_page_fault = matches_one(kPageFaultNames, name);
  const auto* const found = std::ranges::find_if(
      kNamedWaits, [name](const NamedWait& known) { return matches(known.pattern, name); });
  if (found != kNamedWaits.end()) meaning.wait = found->wait;
  return meaning;
}

WaitFrames::Meaning WaitFrames::meaning_at(std::uint64_t return_address) {
  const auto [known, added] = meanings_.try_emplace(return_address);
  if (added) known->second = meaning_of(without_clone_suffix(name_of_(return_address - 1)));
  return known->second;
}

}  // namespace profd
