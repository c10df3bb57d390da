#include "daemon/history/user_shares.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "collectors/sandbox/privileges.h"
#include "daemon/history/profile_tables.h"

namespace profd {
namespace {

// About what an entry takes in the file besides its texts.
constexpr std::size_t kSampleBytes = 16;
constexpr std::size_t kFrameBytes = 2;
constexpr std::size_t kLocationBytes = 24;
constexpr std::size_t kFunctionBytes = 12;
constexpr std::size_t kMappingBytes = 32;
constexpr std::size_t kNamedFileBytes = 40;  // in the own data of the file

// How much smaller a window is when it is packed.
constexpr std::uint64_t kPacking = 4;

// Of one share: a user whose processes have more owners than these has subordinate uids or many
// groups.
constexpr std::size_t kMaxFoldedOfShare = 8;

constexpr std::size_t kNoProcess = std::numeric_limits<std::size_t>::max();

// What the processes and stacks of one user take of a file: each process, location, mapping and
// function counts once.
class UserCost {
 public:
  explicit UserCost(const PprofProfile& profile)
      : profile_(profile),
        locations_(profile.locations().size()),
        mappings_(profile.mappings().size()),
        functions_(profile.functions().size()) {}

  // False: it is over the limit, and does not count.
  bool add_process(std::size_t bytes, std::size_t max_bytes) {
    if (bytes_ + bytes > max_bytes) return false;
    bytes_ += bytes;
    return true;
  }

  // False: the stack is over the limit. The first such stack counts, and then no other one fits.
  bool add(const PprofSample& sample, std::size_t max_bytes) {
    if (bytes_ >= max_bytes) return false;
    bytes_ += kSampleBytes;
    for (const std::uint32_t location : profile_.stack(sample.stack)) {
      bytes_ += kFrameBytes;
      if (!locations_[location]) add_location(location);
    }
    return bytes_ <= max_bytes;
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void add_mapping(std::uint32_t index) {
    if (index == PprofLocation::kNoMapping || mappings_[index]) return;
    mappings_[index] = true;
    const PprofMapping& mapping = profile_.mappings()[index];
    const std::size_t id_bytes = profile_.text(mapping.build_id).size();
    bytes_ += kMappingBytes + profile_.text(mapping.file).size() + id_bytes;
    if (id_bytes != 0) bytes_ += kNamedFileBytes;
  }

  void add_location(std::uint32_t location) {
    locations_[location] = true;
    bytes_ += kLocationBytes;
    add_mapping(profile_.locations()[location].mapping);
    for (const PprofLine& line : profile_.lines(profile_.locations()[location].lines)) {
      if (functions_[line.function]) continue;
      functions_[line.function] = true;
      const PprofFunction& function = profile_.functions()[line.function];
      bytes_ += kFunctionBytes;
      for (const std::uint32_t text : {function.name, function.system_name, function.file}) {
        bytes_ += profile_.text(text).size();
      }
    }
  }

  const PprofProfile& profile_;
  std::vector<bool> locations_;
  std::vector<bool> mappings_;
  std::vector<bool> functions_;
  std::size_t bytes_ = 0;
};

using Users = std::vector<std::optional<std::uint32_t>>;

// Who pays for each process.
Users users_of(const WindowSums& processes, UidOwners& owners) {
  Users users;
  for (const WindowProfile& process : processes.profiles()) {
    users.push_back(process.user);
    if (!process.user || process.user == 0U || process.user == sandbox::kSandboxUser) continue;
    users.back() = owners.owner_of(*process.user);
  }
  return users;
}

struct FoldedProcess {
  std::size_t place = 0;      // in the sums
  std::uint32_t sharing = 0;  // the user, or UserBytes::kOthers
};

struct OverShare {
  std::vector<bool> samples;  // by their place in the profile
  std::vector<FoldedProcess> processes;
  std::vector<UserBytes> users;
};

std::vector<UserBytes> bytes_of(const std::map<std::uint32_t, UserCost>& costs) {
  std::vector<UserBytes> users;
  users.reserve(costs.size());
  for (const auto& [uid, cost] : costs) users.push_back({.uid = uid, .bytes = cost.bytes()});
  return users;
}

// The process of each set of labels.
std::vector<std::size_t> places_of_sets(const PprofProfile& profile, const WindowSums& processes) {
  std::vector<std::size_t> places;
  for (std::uint32_t set = 0; set < profile.labels_count(); ++set) {
    places.push_back(processes.place_of(labels_of(profile, set)).value_or(kNoProcess));
  }
  return places;
}

template <class TimeOf>
std::vector<std::size_t> hottest_first(std::size_t count, const TimeOf& time_of_place) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{}, time_of_place);
  return order;
}

// Finds what is over the shares of users: first processes, then stacks.
class ShareFinder {
 public:
  ShareFinder(const PprofProfile& profile, const WindowSums& processes, const Users& users,
              const UserLimits& limits)
      : profile_(profile),
        processes_(processes),
        users_(users),
        limits_(limits),
        places_(places_of_sets(profile, processes)),
        is_folded_(processes.profiles().size()),
        is_over_(profile.samples().size()) {}

  OverShare find() {
    std::vector<std::int64_t> times(is_folded_.size());
    for (std::size_t i = 0; i < is_over_.size(); ++i) {
      const std::size_t place = place_of(i);
      if (place != kNoProcess) times[place] += profile_.values(i).back();
    }
    for (const std::size_t place :
         hottest_first(times.size(), [&](std::size_t i) { return times[i]; })) {
      add_process(place);
    }
    for (const std::size_t sample :
         hottest_first(is_over_.size(), [&](std::size_t i) { return profile_.values(i).back(); })) {
      add_sample(sample);
    }
    return {
        .samples = std::move(is_over_), .processes = std::move(folded_), .users = bytes_of(known_)};
  }

 private:
  struct Share {
    std::uint32_t uid = UserBytes::kOthers;
    UserCost* cost = nullptr;
    std::size_t max_bytes = 0;
  };

  [[nodiscard]] std::size_t place_of(std::size_t sample) const {
    return places_[profile_.samples()[sample].labels];
  }

  // None: the process has no limit.
  std::optional<Share> share_of(std::size_t place) {
    const auto uid = place == kNoProcess ? std::nullopt : users_[place];
    if (uid == 0U || uid == sandbox::kSandboxUser) return std::nullopt;
    const bool has_own = uid && (known_.contains(*uid) || known_.size() < kMaxSharingUsers);
    const std::uint32_t sharing = has_own ? *uid : UserBytes::kOthers;
    return Share{.uid = sharing,
                 .cost = &known_.try_emplace(sharing, profile_).first->second,
                 .max_bytes = limits_.of(sharing)};
  }

  void add_process(std::size_t place) {
    const std::optional<Share> share = share_of(place);
    if (!share || share->cost->add_process(processes_.file_bytes(place), share->max_bytes / 2)) {
      return;
    }
    is_folded_[place] = true;
    folded_.push_back({.place = place, .sharing = share->uid});
  }

  void add_sample(std::size_t sample) {
    const std::size_t place = place_of(sample);
    if (place != kNoProcess && is_folded_[place]) {
      is_over_[sample] = true;
    } else if (const std::optional<Share> share = share_of(place)) {
      is_over_[sample] = !share->cost->add(profile_.samples()[sample], share->max_bytes);
    }
  }

  const PprofProfile& profile_;
  const WindowSums& processes_;
  const Users& users_;
  const UserLimits& limits_;
  std::vector<std::size_t> places_;  // by set of labels
  std::map<std::uint32_t, UserCost> known_;
  std::vector<bool> is_folded_;
  std::vector<FoldedProcess> folded_;
  std::vector<bool> is_over_;
};

// What processes become that are folded: for each user that the labels name, one process that has
// the owner. One for all those that have no owner, or another owner than that.
class FoldTargets {
 public:
  struct Target {
    WindowProfile profile;
    std::uint32_t label_set = 0;  // of the profile
  };

  FoldTargets(const WindowSums& processes, const std::vector<FoldedProcess>& folded,
              PprofProfile& profile) {
    rest_ = target_in(profile, process_with(std::nullopt, std::nullopt, kNoLabel));
    std::map<std::uint32_t, std::size_t> of_share;
    for (const FoldedProcess& one : folded) {
      const WindowProfile& from = processes.profiles()[one.place];
      const std::string& user = from.labels.user;
      if (!from.owner || user == kNoLabel || by_user_.contains(user)) continue;
      if (++of_share[one.sharing] > kMaxFoldedOfShare) continue;
      WindowProfile into = process_with(from.owner, from.user, user);
      // In an hour: that of the windows.
      if (const auto known = processes.place_of(into.labels)) into = processes.profiles()[*known];
      by_user_.emplace(user, target_in(profile, std::move(into)));
    }
  }

  [[nodiscard]] const Target& of(const WindowProfile& process) const {
    const auto known = by_user_.find(process.labels.user);
    const bool fits = known != by_user_.end() && process.owner &&
                      known->second.profile.owner == process.owner &&
                      known->second.profile.user == process.user;
    return fits ? known->second : rest_;
  }

 private:
  static WindowProfile process_with(std::optional<ProcessOwner> owner,
                                    std::optional<std::uint32_t> uid, const std::string& user) {
    WindowProfile process;
    process.owner = owner;
    process.user = uid;
    process.labels.comm = kOverShare;
    process.labels.user = user;
    return process;
  }

  static Target target_in(PprofProfile& profile, WindowProfile into) {
    const std::uint32_t label_set = add_labels(profile, into.labels);
    return {.profile = std::move(into), .label_set = label_set};
  }

  std::map<std::string, Target> by_user_;
  Target rest_;
};

using TargetsByPlace = std::vector<const FoldTargets::Target*>;  // null: stays as it is

TargetsByPlace targets_by_place(const WindowSums& processes,
                                const std::vector<FoldedProcess>& folded,
                                const FoldTargets& targets) {
  TargetsByPlace by_place(processes.profiles().size());
  for (const FoldedProcess& one : folded) {
    by_place[one.place] = &targets.of(processes.profiles()[one.place]);
  }
  return by_place;
}

void fold(WindowSums& processes, const TargetsByPlace& targets) {
  std::vector<const WindowProfile*> into;
  for (const FoldTargets::Target* target : targets) {
    into.push_back(target == nullptr ? nullptr : &target->profile);
  }
  processes.fold(into);
}

}  // namespace

std::size_t UserLimits::of(std::optional<std::uint32_t> uid) const {
  const auto found = by_uid.find(uid.value_or(UserBytes::kOthers));
  return found == by_uid.end() ? others : found->second;
}

UserParts limit_user_shares(PprofProfile& profile, WindowSums& processes, UidOwners& owners,
                            const UserLimits& limits) {
  const Users users = users_of(processes, owners);
  OverShare over = ShareFinder(profile, processes, users, limits).find();
  const std::vector<bool>& is_over = over.samples;
  UserParts parts{.users = std::move(over.users)};
  const bool is_any = std::ranges::find(is_over, true) != is_over.end();
  if (!is_any && over.processes.empty()) return parts;
  const std::vector<std::size_t> places = places_of_sets(profile, processes);
  const FoldTargets folded(processes, over.processes, profile);
  const TargetsByPlace targets = targets_by_place(processes, over.processes, folded);
  TablesOfProfile tables(profile);
  const std::uint32_t substitute = tables.add_substitute(kOverShare);
  for (std::size_t i = 0; i < is_over.size(); ++i) {
    const PprofSample& sample = profile.samples()[i];
    const std::size_t place = places[sample.labels];
    const auto* const target = place == kNoProcess ? nullptr : targets[place];
    tables.add(i, is_over[i] ? std::span(&substitute, 1) : profile.stack(sample.stack),
               target == nullptr ? sample.labels : target->label_set);
    if (!is_over[i]) continue;
    const auto samples = static_cast<std::uint64_t>(profile.values(i)[0]);
    parts.over_share_samples += samples;
    if (place == kNoProcess || !users[place]) continue;
    parts.over_share_by_uid[*users[place]] += samples;
  }
  if (!tables.replace(profile)) return {};
  fold(processes, targets);
  return parts;
}

void UserSums::add(const std::vector<UserBytes>& users) {
  for (const UserBytes& user : users) {
    const bool has_own = bytes_.contains(user.uid) || bytes_.size() < kMaxUsers;
    bytes_[has_own ? user.uid : UserBytes::kOthers] += user.bytes;
    all_ += user.bytes;
  }
}

UserLimits UserSums::limits(std::uint64_t max_bytes, std::uint64_t steps,
                            std::size_t max_file_bytes) const {
  const std::uint64_t left_of_all = max_bytes / 2 - std::min(all_, max_bytes / 2);
  const auto limit_after = [&](std::uint64_t bytes) -> std::size_t {
    const std::uint64_t share = max_bytes / 8;
    const std::uint64_t left = std::min(share - std::min(bytes, share), left_of_all);
    return std::min<std::uint64_t>(left / steps * kPacking, max_file_bytes);
  };
  UserLimits limits{.others = limit_after(0)};
  for (const auto& [uid, bytes] : bytes_) limits.by_uid.emplace(uid, limit_after(bytes));
  return limits;
}

}  // namespace profd
