#include "daemon/history/user_shares.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "collectors/sandbox/privileges.h"
#include "daemon/history/profile_tables.h"

namespace profd {
namespace {

constexpr std::string_view kOverShare = "[over share]";

// About what an entry takes in the file besides its texts.
constexpr std::size_t kSampleBytes = 16;
constexpr std::size_t kFrameBytes = 2;
constexpr std::size_t kLocationBytes = 24;
constexpr std::size_t kFunctionBytes = 12;
constexpr std::size_t kMappingBytes = 32;
constexpr std::size_t kProcessInFileBytes = 400;  // in the own data of the file

// How much smaller a window is when it is packed.
constexpr std::uint64_t kPacking = 4;

// What the processes and stacks of one user take of a file: each set of labels, location, mapping
// and function counts once.
class UserCost {
 public:
  explicit UserCost(const PprofProfile& profile)
      : profile_(profile),
        labels_(profile.labels_count()),
        locations_(profile.locations().size()),
        mappings_(profile.mappings().size()),
        functions_(profile.functions().size()) {}

  // False: the stack is over the limit, and does not count. The process does.
  bool add(const PprofSample& sample, std::size_t max_bytes) {
    if (!labels_[sample.labels]) add_process(sample.labels);
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
  // Its texts are in the labels and in the own data.
  void add_process(std::uint32_t labels) {
    labels_[labels] = true;
    bytes_ += kProcessInFileBytes;
    for (const PprofLabel& label : profile_.labels(labels)) {
      bytes_ += profile_.text(label.text).size();
    }
  }

  void add_mapping(std::uint32_t index) {
    if (index == PprofLocation::kNoMapping || mappings_[index]) return;
    mappings_[index] = true;
    const PprofMapping& mapping = profile_.mappings()[index];
    bytes_ +=
        kMappingBytes + profile_.text(mapping.file).size() + profile_.text(mapping.build_id).size();
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
  std::vector<bool> labels_;
  std::vector<bool> locations_;
  std::vector<bool> mappings_;
  std::vector<bool> functions_;
  std::size_t bytes_ = 0;
};

struct OverShare {
  std::vector<bool> samples;  // by their place in the profile
  std::vector<UserBytes> users;
};

std::vector<UserBytes> bytes_of(const std::map<std::uint32_t, UserCost>& costs) {
  std::vector<UserBytes> users;
  users.reserve(costs.size());
  for (const auto& [uid, cost] : costs) users.push_back({.uid = uid, .bytes = cost.bytes()});
  return users;
}

// The samples that are over their users' shares; the hottest stacks come first.
OverShare find_over_share(const PprofProfile& profile, const UsersOfLabels& users,
                          const UserLimits& limits) {
  std::vector<std::size_t> hottest_first(profile.samples().size());
  std::iota(hottest_first.begin(), hottest_first.end(), 0);
  std::ranges::stable_sort(hottest_first, std::ranges::greater{},
                           [&](std::size_t sample) { return profile.values(sample)[0]; });
  std::map<std::uint32_t, UserCost> known;
  std::vector<bool> is_over(profile.samples().size());
  for (const std::size_t place : hottest_first) {
    const PprofSample& sample = profile.samples()[place];
    const auto user = users.find(sample.labels);
    const auto uid = user == users.end() ? std::nullopt : user->second;
    if (uid == 0U || uid == sandbox::kSandboxUser) continue;
    const bool has_own = uid && (known.contains(*uid) || known.size() < kMaxSharingUsers);
    const std::uint32_t sharing = has_own ? *uid : UserBytes::kOthers;
    UserCost& cost = known.try_emplace(sharing, profile).first->second;
    is_over[place] = !cost.add(sample, limits.of(sharing));
  }
  return {.samples = std::move(is_over), .users = bytes_of(known)};
}

}  // namespace

std::size_t UserLimits::of(std::optional<std::uint32_t> uid) const {
  const auto found = by_uid.find(uid.value_or(UserBytes::kOthers));
  return found == by_uid.end() ? others : found->second;
}

UserParts limit_user_shares(PprofProfile& profile, const UsersOfLabels& users,
                            const UserLimits& limits) {
  OverShare over = find_over_share(profile, users, limits);
  const std::vector<bool>& is_over = over.samples;
  UserParts parts{.users = std::move(over.users)};
  if (std::ranges::find(is_over, true) == is_over.end()) return parts;
  TablesOfProfile tables(profile);
  const std::uint32_t substitute = tables.add_substitute(kOverShare);
  for (std::size_t i = 0; i < is_over.size(); ++i) {
    const auto stack = profile.stack(profile.samples()[i].stack);
    tables.add(i, is_over[i] ? std::span(&substitute, 1) : stack);
    if (!is_over[i]) continue;
    const auto samples = static_cast<std::uint64_t>(profile.values(i)[0]);
    parts.over_share_samples += samples;
    const auto user = users.find(profile.samples()[i].labels);
    if (user != users.end() && user->second) parts.over_share_by_uid[*user->second] += samples;
  }
  if (!tables.replace(profile)) return {};
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
