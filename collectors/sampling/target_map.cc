#include "collectors/sampling/target_map.h"

#include <bpf/bpf.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <span>
#include <string>
#include <utility>

#include "collectors/host/clock.h"

namespace profd {
namespace {

constexpr std::size_t kBatch = 4096;  // entries of a system call

// Longer than a process needs to release its memory, which is sampled too.
constexpr std::int64_t kKeptNs = 60'000'000'000;

Error too_many(bool of_users) {
  return fail(ErrorCode::kTooLarge, "too many target processes",
              of_users ? "stop another of your sessions by pid, or sample by --uid, --comm or "
                         "--cgroup"
                       : "sample by --uid, --comm or --cgroup, or sample all processes");
}

// The kernel stops at the first entry that is not there any more: its process was freed meanwhile.
std::size_t delete_all(int map, std::span<const profd_target_key> keys) {
  std::size_t deleted = 0;
  while (!keys.empty()) {
    auto count = static_cast<std::uint32_t>(std::min(keys.size(), kBatch));
    const std::size_t wanted = count;
    const bool all = bpf_map_delete_batch(map, keys.data(), &count, nullptr) == 0;
    deleted += std::min<std::size_t>(count, wanted);
    keys = keys.subspan(all ? wanted : std::min<std::size_t>(count, wanted - 1) + 1);
  }
  return deleted;
}

}  // namespace

void TargetMap::Unmap::operator()(profd_target_counts* counts) const noexcept {
  ::munmap(counts, sizeof(profd_target_counts));
}

Result<TargetMap> TargetMap::open(const Programs& programs) {
  TargetMap map;
  const auto targets = programs.map("profd_targets");
  if (!targets) return targets.error();
  map.map_ = *targets;
  const auto counts = programs.map("profd_target_counts");
  if (!counts) return counts.error();
  void* memory =
      ::mmap(nullptr, sizeof(profd_target_counts), PROT_READ | PROT_WRITE, MAP_SHARED, *counts, 0);
  if (memory == MAP_FAILED) return fail_errno("could not map the counts of targets");
  map.counts_.reset(static_cast<profd_target_counts*>(memory));
  return map;
}

// Sessions of one user have one account.
std::uint32_t TargetMap::open_account(SessionSlot slot, std::optional<uid_t> user) {
  users_[slot].reset();
  accounts_[slot] = 0;
  if (!user) return 0;
  const auto same = std::ranges::find(users_, user);
  if (same != users_.end()) {
    accounts_[slot] = accounts_[static_cast<std::size_t>(same - users_.begin())];
  } else {
    std::uint32_t account = 1;
    while (std::ranges::find(accounts_, account) != accounts_.end()) ++account;
    accounts_[slot] = account;
  }
  users_[slot] = user;
  return accounts_[slot];
}

// Where there is an entry that the hook of forks did not add for this process, it is that of an
// earlier process with the tgid.
Result<bool> TargetMap::add(SessionSlot slot, const profd_task& task, bool from_exec) {
  const profd_target_key key{.tgid = task.global_tgid, .slot = slot};
  const profd_target target{.start_ns = task.start_ns,
                            .ended_ns = 0,
                            .exec_id = task.exec_id,
                            .from_exec = from_exec ? 1U : 0U,
                            .account = accounts_[slot],
                            .reserved = 0};
  for (int tries = 1;; ++tries) {
    if (auto charged = charge(target.account); !charged) {
      if (has(key, task.start_ns)) return false;
      return charged.error();
    }
    if (bpf_map_update_elem(map_, &key, &target, BPF_NOEXIST) == 0) return true;
    const int code = errno;
    add_to_counts(target.account, -1);
    if (code == E2BIG) return too_many(target.account != 0);
    if (code != EEXIST || tries == 2) {
      return fail_errno("could not add process " + std::to_string(task.tgid), code);
    }
    if (has(key, task.start_ns)) return false;
    erase(key);
  }
}

bool TargetMap::has(const profd_target_key& key, std::uint64_t start_ns) const {
  profd_target known{};
  return bpf_map_lookup_elem(map_, &key, &known) == 0 && known.start_ns == start_ns;
}

Result<void> TargetMap::charge(std::uint32_t account) {
  add_to_counts(account, 1);
  if (account == 0) return {};
  const int own = std::atomic_ref(counts_->of_account[account]).load();
  const int all = std::atomic_ref(counts_->of_users).load();
  if (own <= PROFD_MAX_TARGETS_OF_USER && all <= PROFD_MAX_TARGETS_OF_USERS) return {};
  add_to_counts(account, -1);
  return too_many(true);
}

void TargetMap::add_to_counts(std::uint32_t account, int change) {
  std::atomic_ref(counts_->of_account[account]).fetch_add(change);
  if (account != 0) std::atomic_ref(counts_->of_users).fetch_add(change);
}

void TargetMap::remove(SessionSlot slot, const profd_task& task) {
  const profd_target_key key{.tgid = task.global_tgid, .slot = slot};
  if (has(key, task.start_ns)) erase(key);
}

void TargetMap::erase(const profd_target_key& key) {
  if (bpf_map_delete_elem(map_, &key) == 0) add_to_counts(accounts_[key.slot], -1);
}

void TargetMap::remove_all(SessionSlot slot) {
  std::vector<profd_target_key> keys;
  for_each([&](const profd_target_key& key, const profd_target&) {
    if (key.slot == slot) keys.push_back(key);
  });
  add_to_counts(accounts_[slot], -static_cast<int>(delete_all(map_, keys)));
  users_[slot].reset();
  accounts_[slot] = 0;
}

std::uint32_t TargetMap::slots_with_targets() {
  const std::int64_t old_ns = now_ns(CLOCK_MONOTONIC) - kKeptNs;
  std::uint32_t slots = 0;
  std::vector<std::pair<profd_target_key, std::uint64_t>> old;
  for_each([&](const profd_target_key& key, const profd_target& target) {
    if (target.ended_ns == 0) {
      slots |= std::uint32_t{1} << key.slot;
    } else if (static_cast<std::int64_t>(target.ended_ns) < old_ns) {
      old.emplace_back(key, target.start_ns);
    }
  });
  for (const auto& [key, start_ns] : old) {
    if (has(key, start_ns)) erase(key);
  }
  return slots;
}

// Each entry that is there all the time is visited once.
template <class Visit>
void TargetMap::for_each(Visit visit) const {
  std::vector<profd_target_key> keys(kBatch);
  std::vector<profd_target> targets(kBatch);
  std::uint32_t position = 0;
  void* begin = nullptr;
  for (bool has_more = true; has_more; begin = &position) {
    std::uint32_t count = kBatch;
    has_more = bpf_map_lookup_batch(map_, begin, &position, keys.data(), targets.data(), &count,
                                    nullptr) == 0;
    if (!has_more && errno != ENOENT) return;  // ENOENT: these are the last ones
    for (std::uint32_t i = 0; i < count; ++i) visit(keys[i], targets[i]);
  }
}

}  // namespace profd
