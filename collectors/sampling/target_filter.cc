#include "collectors/sampling/target_filter.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "collectors/host/clock.h"
#include "collectors/host/mounts.h"
#include "collectors/sampling/slot_masks.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

using Comm = std::array<char, PROFD_COMM_BYTES>;

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

}  // namespace

void TargetFilter::Unmap::operator()(profd_filter* filter) const noexcept {
  ::munmap(filter, sizeof(profd_filter));
}

Result<TargetFilter> TargetFilter::open(const Programs& programs) {
  TargetFilter filter;
  const auto map = programs.map("profd_filter");
  if (!map) return map.error();
  void* memory = ::mmap(nullptr, sizeof(profd_filter), PROT_READ | PROT_WRITE, MAP_SHARED, *map, 0);
  if (memory == MAP_FAILED) return fail_errno("could not map the filter");
  filter.filter_.reset(static_cast<profd_filter*>(memory));
  filter.raise_match_generation();  // 0 is that of a thread that was never matched
  for (const auto& [name, fd] :
       {std::pair{"profd_comms", &filter.comms_}, std::pair{"profd_uids", &filter.uids_},
        std::pair{"profd_cgroups", &filter.cgroups_}}) {
    const auto found = programs.map(name);
    if (!found) return found.error();
    *fd = *found;
  }
  auto processes = ProcessTargets::open(programs, *filter.filter_);
  if (!processes) return processes.error();
  filter.processes_.emplace(std::move(*processes));
  filter.cgroup_mount_ = find_cgroup_mount();
  return filter;
}

Result<void> TargetFilter::add(SessionSlot slot, const EventUse& use, const Target& target,
                               const SessionOwner& owner) {
  if (auto added = add_criteria(slot, target); !added) {
    stop_matching(slot);
    return added.error();
  }
  if (target.restrict_to) {
    filter_->restrict_uid[slot] = target.restrict_to->uid;
    filter_->restrict_gid[slot] = target.restrict_to->gid;
    set_bit(filter_->restricted, slot);
  }
  const bool is_of_user = owner.rank == Rank::kUnprivileged;
  if (is_of_user) set_bit(filter_->of_users, slot);
  std::atomic_ref(filter_->announcements).fetch_add(1, std::memory_order_release);
  set_began(slot);
  if (use.has_blocks()) count_blocks_from(slot, PROFD_NOT_YET_NS);
  set_use(slot, use);
  set_live(slot);
  // Pids are added when the slot is live: a child that a target forks now joins a session only
  // while it is live.
  if (target.pids.empty()) return {};
  processes_->start(slot, {.pids = target.pids,
                           .follow_children = target.follow_children,
                           .from_exec = target.from_exec,
                           .user = is_of_user ? std::optional(owner.user) : std::nullopt});
  return {};
}

void TargetFilter::set_use(SessionSlot slot, const EventUse& use) {
  if (use.event_set) set_bit(filter_->event_set[*use.event_set], slot);
  if (use.blocked) set_bit(filter_->blocked, slot);
  if (use.runnable) set_bit(filter_->runnable, slot);
}

// A block of the session that had the slot before may end as soon as the slot has blocks again: its
// thread's match must be an old one by then. So this comes before set_use().
void TargetFilter::set_began(SessionSlot slot) {
  const auto now = static_cast<std::uint64_t>(now_ns(CLOCK_MONOTONIC));
  std::atomic_ref(filter_->began_ns[slot]).store(now, std::memory_order_release);
  raise_match_generation();
}

// The programs compare the time of the slot only where a block began before that of all slots. A
// switch that reads the old one meanwhile does so within the microsecond after `time_ns`.
void TargetFilter::count_blocks_from(SessionSlot slot, std::uint64_t time_ns) {
  if (time_ns == PROFD_NOT_YET_NS) {
    std::atomic_ref(filter_->all_counted_ns).store(time_ns, std::memory_order_release);
  }
  std::atomic_ref(filter_->counted_from_ns[slot]).store(time_ns, std::memory_order_release);
  set_all_counted();
}

void TargetFilter::set_all_counted() {
  const std::uint64_t latest = *std::ranges::max_element(filter_->counted_from_ns);
  std::atomic_ref(filter_->all_counted_ns).store(latest, std::memory_order_release);
}

void TargetFilter::set_live(SessionSlot slot) {
  set_bit(filter_->live, slot);
  raise_match_generation();
}

void TargetFilter::raise_match_generation() {
  std::atomic_ref(filter_->match_generation).fetch_add(1, std::memory_order_acq_rel);
}

// Targets that were added by now are matched from now on.
Result<bool> TargetFilter::has_begun(SessionSlot slot) {
  auto begun = processes_->has_begun(slot);
  if (begun && *begun) raise_match_generation();
  return begun;
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

// A tick reads `all` once, so one store switches both slots. Everything else is set before it.
void TargetFilter::move_target(SessionSlot from, SessionSlot to, const EventUse& use) {
  set_began(to);
  set_use(to, use);
  set_live(to);
  const std::uint32_t both = bit(from) | bit(to);
  std::atomic_ref(filter_->all).fetch_xor(both, std::memory_order_acq_rel);
  raise_match_generation();
}

void TargetFilter::stop_matching(SessionSlot slot) {
  clear_bit(filter_->live, slot);
  raise_match_generation();
}

void TargetFilter::remove(SessionSlot slot) {
  for (std::uint32_t* mask :
       {&filter_->live, &filter_->blocked, &filter_->runnable, &filter_->all, &filter_->by_comm,
        &filter_->by_uid, &filter_->by_cgroup, &filter_->of_users, &filter_->restricted}) {
    clear_bit(*mask, slot);
  }
  for (std::uint32_t& mask : filter_->event_set) clear_bit(mask, slot);
  remove_from_masks<Comm>(comms_, slot);
  remove_from_masks<std::uint32_t>(uids_, slot);
  for (std::uint32_t i = 0; i < PROFD_CGROUPS_PER_SESSION; ++i) {
    const std::uint32_t place = slot * PROFD_CGROUPS_PER_SESSION + i;
    bpf_map_delete_elem(cgroups_, &place);
  }
  processes_->remove(slot);
  std::atomic_ref(filter_->counted_from_ns[slot]).store(0, std::memory_order_release);
  set_all_counted();
  raise_match_generation();
}

bool TargetFilter::has_targets(SessionSlot slot) {
  const std::uint32_t others =
      filter_->all | filter_->by_comm | filter_->by_uid | filter_->by_cgroup;
  return (others & bit(slot)) != 0 || processes_->has_targets(slot);
}

}  // namespace profd
