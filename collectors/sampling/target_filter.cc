#include "collectors/sampling/target_filter.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <set>

#include "collectors/host/mounts.h"

namespace profd {
namespace {

using Comm = std::array<char, PROFD_COMM_BYTES>;

constexpr std::uint32_t bit(SessionSlot slot) { return std::uint32_t{1} << slot; }

// Running programs read the filter's masks.
void set_bit(std::uint32_t& mask, SessionSlot slot) {
  std::atomic_ref(mask).fetch_or(bit(slot), std::memory_order_release);
}
void clear_bit(std::uint32_t& mask, SessionSlot slot) {
  std::atomic_ref(mask).fetch_and(~bit(slot), std::memory_order_release);
}

// Collected before any is deleted: a deletion makes the iteration start again.
template <class Key>
std::vector<Key> keys_of(int map) {
  std::vector<Key> keys;
  Key key{};
  const Key* previous = nullptr;
  while (bpf_map_get_next_key(map, previous, &key) == 0) {
    keys.push_back(key);
    previous = &keys.back();
  }
  return keys;
}

template <class Key>
Result<void> add_to_mask(int map, const Key& key, SessionSlot slot, const std::string& what) {
  std::uint32_t mask = 0;
  bpf_map_lookup_elem(map, &key, &mask);
  mask |= bit(slot);
  if (bpf_map_update_elem(map, &key, &mask, BPF_ANY) == 0) return {};
  if (errno == E2BIG) return fail(ErrorCode::kTooLarge, "too many targets by " + what);
  return fail_errno("could not add a target by " + what);
}

template <class Key>
void remove_from_masks(int map, SessionSlot slot) {
  for (const Key& key : keys_of<Key>(map)) {
    std::uint32_t mask = 0;
    if (bpf_map_lookup_elem(map, &key, &mask) != 0 || (mask & bit(slot)) == 0) continue;
    mask &= ~bit(slot);
    if (mask == 0) {
      bpf_map_delete_elem(map, &key);
    } else {
      bpf_map_update_elem(map, &key, &mask, BPF_EXIST);
    }
  }
}

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

void TargetFilter::Unmap::operator()(profd_filter* filter) const noexcept {
  ::munmap(filter, sizeof(profd_filter));
}

Result<TargetFilter> TargetFilter::open(const Programs& programs) {
  TargetFilter filter;
  filter.programs_ = &programs;
  const auto map = programs.map("profd_filter");
  if (!map) return map.error();
  void* memory = ::mmap(nullptr, sizeof(profd_filter), PROT_READ | PROT_WRITE, MAP_SHARED, *map, 0);
  if (memory == MAP_FAILED) return fail_errno("could not map the filter");
  filter.filter_.reset(static_cast<profd_filter*>(memory));
  for (const auto& [name, fd] :
       {std::pair{"profd_targets", &filter.targets_}, std::pair{"profd_comms", &filter.comms_},
        std::pair{"profd_uids", &filter.uids_}, std::pair{"profd_cgroups", &filter.cgroups_}}) {
    const auto found = programs.map(name);
    if (!found) return found.error();
    *fd = *found;
  }
  filter.cgroup_mount_ = find_cgroup_mount();
  return filter;
}

Result<void> TargetFilter::add(SessionSlot slot, unsigned event_set, const Target& target) {
  if (auto added = add_criteria(slot, target); !added) {
    stop_matching(slot);
    return added.error();
  }
  if (target.restrict_to) {
    filter_->restrict_uid[slot] = target.restrict_to->uid;
    filter_->restrict_gid[slot] = target.restrict_to->gid;
    set_bit(filter_->restricted, slot);
  }
  std::atomic_ref(filter_->announcements).fetch_add(1, std::memory_order_release);
  set_bit(filter_->event_set[event_set], slot);
  set_bit(filter_->live, slot);
  // Pids are added last, when the slot is live: a child that a target forks now joins a session
  // only while it is live.
  if (auto added = add_processes(slot, target); !added) {
    stop_matching(slot);
    return added.error();
  }
  return {};
}

Result<void> TargetFilter::add_criteria(SessionSlot slot, const Target& target) {
  for (const std::string& name : target.comms) {
    Comm comm{};
    if (name.empty() || name.size() >= comm.size()) {
      return fail(ErrorCode::kInvalidArgument,
                  "invalid command name '" + name + "': it must have 1 to 15 bytes",
                  "the kernel keeps the first 15 bytes of a name; see /proc/PID/comm");
    }
    std::ranges::copy(name, comm.begin());
    if (auto added = add_to_mask(comms_, comm, slot, "name"); !added) return added;
  }
  for (const std::uint32_t uid : target.uids) {
    if (auto added = add_to_mask(uids_, uid, slot, "uid"); !added) return added;
  }
  if (auto added = add_cgroups(slot, target.cgroups); !added) return added;
  if (target.all) set_bit(filter_->all, slot);
  if (!target.comms.empty()) set_bit(filter_->by_comm, slot);
  if (!target.uids.empty()) set_bit(filter_->by_uid, slot);
  if (!target.cgroups.empty()) set_bit(filter_->by_cgroup, slot);
  return {};
}

Result<void> TargetFilter::add_cgroups(SessionSlot slot, const std::vector<std::string>& cgroups) {
  if (cgroups.empty()) return {};
  if (cgroup_mount_.empty()) {
    return fail(ErrorCode::kUnsupported, "this host has no cgroup v2 hierarchy mounted");
  }
  if (cgroups.size() > PROFD_CGROUPS_PER_SESSION) {
    return fail(ErrorCode::kTooLarge, "a session takes at most " +
                                          std::to_string(PROFD_CGROUPS_PER_SESSION) + " cgroups");
  }
  std::uint32_t place = slot * PROFD_CGROUPS_PER_SESSION;
  for (const std::string& path : cgroups) {
    const std::string name = cgroup_mount_ + "/" + path;
    const UniqueFd directory(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const int fd = directory.get();
    if (!directory.valid()) {
      return fail(ErrorCode::kNotFound, "no such cgroup " + path,
                  "give the path of a directory below " + cgroup_mount_);
    }
    if (bpf_map_update_elem(cgroups_, &place, &fd, BPF_ANY) != 0) {
      return fail(ErrorCode::kInvalidArgument, "not a cgroup: " + path);
    }
    ++place;
  }
  return {};
}

Result<void> TargetFilter::add_processes(SessionSlot slot, const Target& target) {
  if (target.pids.empty()) return {};
  if (auto attached = attach_hooks(target.follow_children); !attached) return attached;
  if (target.follow_children) following_ |= bit(slot);
  const std::set<std::uint32_t> unique(target.pids.begin(), target.pids.end());
  const std::vector<std::uint32_t> pids(unique.begin(), unique.end());
  std::vector<UniqueFd> pidfds;
  for (const std::uint32_t pid : pids) {
    auto pidfd = open_process(pid);
    if (!pidfd) return pidfd.error();
    pidfds.push_back(std::move(*pidfd));
  }
  const auto tasks = programs_->list_tasks(0);
  if (!tasks) return tasks.error();
  for (std::size_t i = 0; i < pidfds.size(); ++i) {
    const auto task = std::ranges::find(*tasks, pids[i], &profd_task::tgid);
    if (task == tasks->end()) return not_listed(pids[i], pidfds[i]);
    auto added = add_process(slot, *task, target.follow_children, target.from_exec);
    if (!added) return added;
    // Still running: so the list has this process and not an earlier or later one with its pid, and
    // the exit hook will remove its entry.
    if (!is_running(pidfds[i])) return no_such_process(pids[i]);
  }
  set_bit(filter_->by_process, slot);
  return target.follow_children ? add_descendants(slot, target.from_exec) : Result<void>{};
}

// The fork hook sees forks after the parent's entry was added; the next list of tasks has those
// from before. So tasks are listed until a list adds nothing. A process that is not in the last
// list exited before its entry was added, so no hook will remove it.
Result<void> TargetFilter::add_descendants(SessionSlot slot, bool from_exec) {
  std::vector<profd_task> added;
  for (;;) {
    const auto tasks = programs_->list_tasks(0);
    if (!tasks) return tasks.error();
    const std::size_t before = added.size();
    for (const profd_task& task : *tasks) {
      if (!is_target(task.parent_global_tgid, slot) || is_target(task.global_tgid, slot)) continue;
      if (auto done = add_process(slot, task, true, from_exec); !done) return done;
      added.push_back(task);
    }
    if (added.size() != before) continue;
    remove_absent(added, *tasks);
    return {};
  }
}

bool TargetFilter::is_target(std::uint32_t global_tgid, SessionSlot slot) const {
  profd_target entry{};
  return bpf_map_lookup_elem(targets_, &global_tgid, &entry) == 0 &&
         (entry.sessions & bit(slot)) != 0;
}

void TargetFilter::remove_absent(const std::vector<profd_task>& added,
                                 const std::vector<profd_task>& present) {
  for (const profd_task& task : added) {
    const bool here = std::ranges::any_of(present, [&](const profd_task& other) {
      return other.global_tgid == task.global_tgid && other.start_ns == task.start_ns;
    });
    if (!here) bpf_map_delete_elem(targets_, &task.global_tgid);
  }
}

Result<void> TargetFilter::add_process(SessionSlot slot, const profd_task& task, bool follow,
                                       bool from_exec) {
  profd_target entry{};
  const bool known = bpf_map_lookup_elem(targets_, &task.global_tgid, &entry) == 0 &&
                     entry.start_ns == task.start_ns;
  if (!known) {
    entry = {};
    entry.start_ns = task.start_ns;
    entry.exec_id = task.exec_id;
  }
  // The exec that sessions waited for has happened.
  if (entry.exec_id != task.exec_id) entry.from_exec = 0;
  entry.exec_id = task.exec_id;
  entry.sessions |= bit(slot);
  if (follow) entry.follow |= bit(slot);
  if (from_exec) entry.from_exec |= bit(slot);
  if (bpf_map_update_elem(targets_, &task.global_tgid, &entry, BPF_ANY) == 0) return {};
  if (errno == E2BIG) return fail(ErrorCode::kTooLarge, "too many target processes");
  return fail_errno("could not add process " + std::to_string(task.tgid));
}

Result<void> TargetFilter::attach_hook(UniqueFd& hook, const char* program) {
  if (hook.valid()) return {};
  auto attached = programs_->attach_tracepoint(program);
  if (!attached) return attached.error();
  hook = std::move(*attached);
  return {};
}

Result<void> TargetFilter::attach_hooks(bool follow) {
  if (auto attached = attach_hook(free_hook_, "profd_free"); !attached) return attached;
  if (auto attached = attach_hook(exit_hook_, "profd_exit"); !attached) return attached;
  return follow ? attach_hook(fork_hook_, "profd_fork") : Result<void>{};
}

void TargetFilter::detach_unneeded_hooks() {
  if (following_ == 0) fork_hook_.reset();
  if (filter_->by_process != 0) return;
  exit_hook_.reset();
  free_hook_.reset();
}

// A tick reads `all` once, so one store switches both slots. Everything else is set before it.
void TargetFilter::move_target(SessionSlot from, SessionSlot to, unsigned event_set) {
  set_bit(filter_->event_set[event_set], to);
  set_bit(filter_->live, to);
  const std::uint32_t both = bit(from) | bit(to);
  std::atomic_ref(filter_->all).fetch_xor(both, std::memory_order_acq_rel);
}

void TargetFilter::stop_matching(SessionSlot slot) { clear_bit(filter_->live, slot); }

void TargetFilter::remove(SessionSlot slot) {
  for (std::uint32_t* mask : {&filter_->all, &filter_->by_process, &filter_->by_comm,
                              &filter_->by_uid, &filter_->by_cgroup, &filter_->restricted}) {
    clear_bit(*mask, slot);
  }
  for (std::uint32_t& mask : filter_->event_set) clear_bit(mask, slot);
  remove_from_masks<Comm>(comms_, slot);
  remove_from_masks<std::uint32_t>(uids_, slot);
  for (std::uint32_t i = 0; i < PROFD_CGROUPS_PER_SESSION; ++i) {
    const std::uint32_t place = slot * PROFD_CGROUPS_PER_SESSION + i;
    bpf_map_delete_elem(cgroups_, &place);
  }
  remove_processes(slot);
  following_ &= ~bit(slot);
  detach_unneeded_hooks();
}

void TargetFilter::remove_processes(SessionSlot slot) {
  for (const std::uint32_t tgid : keys_of<std::uint32_t>(targets_)) {
    profd_target entry{};
    if (bpf_map_lookup_elem(targets_, &tgid, &entry) != 0) continue;
    if ((entry.sessions & bit(slot)) == 0) continue;
    entry.sessions &= ~bit(slot);
    entry.follow &= ~bit(slot);
    entry.from_exec &= ~bit(slot);
    if (entry.sessions == 0) {
      bpf_map_delete_elem(targets_, &tgid);
    } else {
      bpf_map_update_elem(targets_, &tgid, &entry, BPF_EXIST);
    }
  }
}

bool TargetFilter::has_targets(SessionSlot slot) const {
  const std::uint32_t others =
      filter_->all | filter_->by_comm | filter_->by_uid | filter_->by_cgroup;
  if ((others & bit(slot)) != 0) return true;
  return std::ranges::any_of(keys_of<std::uint32_t>(targets_), [&](std::uint32_t tgid) {
    profd_target entry{};
    return bpf_map_lookup_elem(targets_, &tgid, &entry) == 0 && (entry.sessions & bit(slot)) != 0 &&
           entry.ended == 0;
  });
}

}  // namespace profd
