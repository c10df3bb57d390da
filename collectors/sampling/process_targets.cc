#include "collectors/sampling/process_targets.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>
#include <utility>

#include "collectors/sampling/slot_masks.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

// An entry takes 1 us, and a pid, which is looked for, 50 us.
constexpr std::size_t kMaxAddsOfCall = 1024;
constexpr std::size_t kMaxPidsOfCall = 64;

// A list finds children that were forked before their parent was added. Another one finds theirs,
// if they forked meanwhile: two lists nearly always do.
constexpr unsigned kMaxLists = 8;

// To read a full map takes 10 ms: a twentieth of the time is the most.
constexpr std::chrono::milliseconds kMinCountInterval{100};
constexpr int kCountIntervalOfTime = 20;

Error no_such_process(std::uint32_t pid) {
  return fail(ErrorCode::kNotFound, "no such process " + std::to_string(pid));
}

Result<UniqueFd> open_process(std::uint32_t pid) {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
  if (pidfd.valid()) return pidfd;
  if (errno == EMFILE) return fail_errno("could not open process " + std::to_string(pid));
  // ESRCH where there is none. EINVAL or ENOENT, depending on the kernel, for a thread that is not
  // a thread-group leader.
  return no_such_process(pid);
}

bool is_running(const UniqueFd& pidfd) {
  pollfd poll{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  return ::poll(&poll, 1, 0) == 0;
}

// A kernel may hide a process from BPF iterators although /proc shows it, as sandboxes do with
// their own processes.
Error not_listed(std::uint32_t pid, const UniqueFd& pidfd) {
  if (!is_running(pidfd)) return no_such_process(pid);
  return fail(
      ErrorCode::kUnsupported,
      "could not find process " + std::to_string(pid) + ": the kernel hides it from BPF iterators",
      "sample it by --uid, --comm or --cgroup, or sample all processes");
}

}  // namespace

Result<ProcessTargets> ProcessTargets::open(const Programs& programs, profd_filter& filter) {
  auto map = TargetMap::open(programs);
  if (!map) return map.error();
  return ProcessTargets(programs, filter, std::move(*map));
}

ProcessTargets::ProcessTargets(const Programs& programs, profd_filter& filter, TargetMap map)
    : programs_(&programs),
      filter_(&filter),
      map_(std::move(map)),
      lister_(programs),
      exit_hook_(programs, {"profd_free", "profd_exit"}),
      fork_hook_(programs, {"profd_fork"}) {}

void ProcessTargets::start(SessionSlot slot, Wanted wanted) {
  std::ranges::sort(wanted.pids);
  wanted.pids.erase(std::unique(wanted.pids.begin(), wanted.pids.end()), wanted.pids.end());
  filter_->account[slot] = map_.open_account(slot, wanted.user);
  slots_ |= bit(slot);
  starts_.insert_or_assign(slot, Start{.wanted = std::move(wanted)});
}

Result<bool> ProcessTargets::has_begun(SessionSlot slot) {
  const auto start = starts_.find(slot);
  if (start == starts_.end()) return true;
  auto begun = advance(slot, start->second);
  if (begun && !*begun) return false;
  starts_.erase(start);
  if (starts_.empty()) lister_.forget();
  next_count_ = {};
  return begun;
}

Result<bool> ProcessTargets::advance(SessionSlot slot, Start& start) {
  if (start.step == Step::kAttach) {
    auto attached = need_hooks(start);
    if (!attached || !*attached) return attached;
    // The hooks see what happens to a target from its entry on.
    set_bit(filter_->by_process, slot);
    if (start.wanted.follow_children) set_bit(filter_->follow, slot);
    start.step = Step::kName;
  }
  if (start.step == Step::kName) {
    auto added = add_named(slot, start);
    if (!added || !*added || !start.wanted.follow_children) return added;
    request_list(start);
  }
  if (start.step == Step::kList) {
    auto listed = take_list(start);
    if (!listed || !*listed) return listed;
  }
  return add_descendants(slot, start);
}

Result<bool> ProcessTargets::need_hooks(const Start& start) {
  auto exit_seen = exit_hook_.need();
  if (!exit_seen || !start.wanted.follow_children) return exit_seen;
  auto fork_seen = fork_hook_.need();
  if (!fork_seen) return fork_seen;
  return *exit_seen && *fork_seen;
}

Result<bool> ProcessTargets::add_named(SessionSlot slot, Start& start) {
  const std::vector<std::uint32_t>& pids = start.wanted.pids;
  for (std::size_t adds = 0; start.named.size() < pids.size(); ++adds) {
    if (adds == kMaxPidsOfCall) return false;
    const auto task = add_pid(slot, pids[start.named.size()], start.wanted.from_exec);
    if (!task) return task.error();
    start.named.push_back(*task);
  }
  return true;
}

Result<profd_task> ProcessTargets::add_pid(SessionSlot slot, std::uint32_t pid, bool from_exec) {
  const auto pidfd = open_process(pid);
  if (!pidfd) return pidfd.error();
  const auto tasks = programs_->list_tasks(pid);
  if (!tasks) return tasks.error();
  const auto task = std::ranges::find(*tasks, pid, &profd_task::tgid);
  if (task == tasks->end()) return not_listed(pid, *pidfd);
  if (auto added = map_.add(slot, *task, from_exec); !added) return added.error();
  // Still running: so the list has this process and not an earlier or later one with its pid, and
  // the exit hook will see its end.
  if (!is_running(*pidfd)) return no_such_process(pid);
  return *task;
}

void ProcessTargets::request_list(Start& start) {
  start.list_number = lister_.request();
  start.step = Step::kList;
}

Result<bool> ProcessTargets::take_list(Start& start) {
  auto list = lister_.find(start.list_number);
  if (!list) return list.error();
  if (!*list) return false;
  start.list = std::move(*list);
  // The last list only shows which processes are still there.
  if (++start.lists <= kMaxLists) {
    std::ranges::copy_if(start.named, std::back_inserter(start.to_add),
                         [&](const profd_task& process) { return start.list->contains(process); });
  }
  start.added_before = start.added.size();
  start.step = Step::kAdd;
  return true;
}

// The fork hook sees forks after the parent's entry was added; the next list of processes has those
// from before. So processes are listed until a list adds nothing.
Result<bool> ProcessTargets::add_descendants(SessionSlot slot, Start& start) {
  for (std::size_t adds = 0; !start.to_add.empty(); ++adds) {
    if (adds == kMaxAddsOfCall) return false;
    const profd_task process = start.to_add.back();
    start.to_add.pop_back();
    if (auto added = add_one(slot, start, process); !added) return added.error();
    std::ranges::move(start.list->children_of(process), std::back_inserter(start.to_add));
  }
  if (start.added.size() != start.added_before) {
    request_list(start);
    return false;
  }
  remove_absent(slot, start);
  return true;
}

Result<void> ProcessTargets::add_one(SessionSlot slot, Start& start, const profd_task& process) {
  std::uint64_t& known_start_ns = start.known[process.global_tgid];
  if (std::exchange(known_start_ns, process.start_ns) == process.start_ns) return {};
  const auto added = map_.add(slot, process, start.wanted.from_exec);
  if (!added) return added.error();
  if (*added) start.added.push_back(process);
  return {};
}

// A process that is not in the last list exited before its entry was added, so no hook will remove
// it.
void ProcessTargets::remove_absent(SessionSlot slot, const Start& start) {
  for (const profd_task& process : start.added) {
    if (!start.list->contains(process)) map_.remove(slot, process);
  }
}

void ProcessTargets::remove(SessionSlot slot) {
  if ((slots_ & bit(slot)) == 0) return;
  slots_ &= ~bit(slot);
  starts_.erase(slot);
  clear_bit(filter_->follow, slot);
  clear_bit(filter_->by_process, slot);
  map_.remove_all(slot);
  slots_with_targets_ &= ~bit(slot);
  filter_->account[slot] = 0;
  const auto now = Hook::Clock::now();
  if (slots_ == 0) exit_hook_.release(now);
  if (filter_->follow == 0) fork_hook_.release(now);
}

bool ProcessTargets::has_targets(SessionSlot slot) {
  if (starts_.contains(slot)) return true;
  if (const auto now = Hook::Clock::now(); now >= next_count_) {
    slots_with_targets_ = map_.slots_with_targets();
    const auto took = Hook::Clock::now() - now;
    next_count_ =
        now + std::max<Hook::Clock::duration>(kMinCountInterval, kCountIntervalOfTime * took);
  }
  return (slots_with_targets_ & bit(slot)) != 0;
}

void ProcessTargets::detach_unneeded_hooks(Hook::Clock::time_point now) {
  exit_hook_.detach_if_unneeded(now);
  fork_hook_.detach_if_unneeded(now);
}

}  // namespace profd
