#include "daemon/history/user_shares.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/profile/pprof_merge.h"
#include "formats/profile/pprof_tables.h"

namespace profd {
namespace {

constexpr std::string_view kOverShare = "[over share]";

// About what an entry takes in the file besides its texts.
constexpr std::size_t kSampleBytes = 16;
constexpr std::size_t kFrameBytes = 2;
constexpr std::size_t kLocationBytes = 24;
constexpr std::size_t kFunctionBytes = 12;

// How much smaller a window is when it is packed.
constexpr std::uint64_t kPacking = 4;

std::uint32_t count_of(std::size_t size) { return static_cast<std::uint32_t>(size); }

// What the stacks of one user take of a file: each location and function counts once.
class UserCost {
 public:
  explicit UserCost(const PprofProfile& profile)
      : profile_(profile),
        locations_(profile.locations().size()),
        functions_(profile.functions().size()) {}

  // False: the stack is over the limit, and does not count.
  bool add(std::uint32_t stack, std::size_t max_bytes) {
    if (bytes_ >= max_bytes) return false;
    bytes_ += kSampleBytes;
    for (const std::uint32_t location : profile_.stack(stack)) {
      bytes_ += kFrameBytes;
      if (!locations_[location]) add_location(location);
    }
    return bytes_ <= max_bytes;
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void add_location(std::uint32_t location) {
    locations_[location] = true;
    bytes_ += kLocationBytes;
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
    if (uid == 0U) continue;
    const bool has_own = uid && (known.contains(*uid) || known.size() < kMaxSharingUsers);
    const std::uint32_t sharing = has_own ? *uid : UserBytes::kOthers;
    UserCost& cost = known.try_emplace(sharing, profile).first->second;
    is_over[place] = !cost.add(sample.stack, limits.of(sharing));
  }
  return {.samples = std::move(is_over), .users = bytes_of(known)};
}

// The tables of a profile, without its header.
class TablesOfProfile {
 public:
  explicit TablesOfProfile(const PprofProfile& profile) : profile_(profile) {
    for (std::uint32_t i = 0; i < profile.text_count(); ++i) to_.texts.push_back(profile.text(i));
    to_.functions.assign(profile.functions().begin(), profile.functions().end());
    to_.mappings.assign(profile.mappings().begin(), profile.mappings().end());
    for (const PprofLocation& location : profile.locations()) add(location);
    for (const PprofValueType& type : profile.sample_types()) {
      to_.sample_types.push_back({text(type.type), text(type.unit)});
    }
    to_.period_type = {text(profile.period_type.type), text(profile.period_type.unit)};
    over_ = add_over_share();
  }

  void add(std::size_t place, bool is_over) {
    const PprofSample& from = profile_.samples()[place];
    PprofTables::Sample sample{.first_frame = count_of(to_.frames.size()),
                               .first_label = count_of(to_.labels.size())};
    const auto frames = profile_.stack(from.stack);
    const auto labels = profile_.labels(from.labels);
    if (is_over) {
      to_.frames.push_back(over_);
    } else {
      to_.frames.insert(to_.frames.end(), frames.begin(), frames.end());
    }
    to_.labels.insert(to_.labels.end(), labels.begin(), labels.end());
    sample.depth = count_of(to_.frames.size()) - sample.first_frame;
    sample.label_count = count_of(labels.size());
    to_.samples.push_back(sample);
    const auto values = profile_.values(place);
    to_.values.insert(to_.values.end(), values.begin(), values.end());
  }

  [[nodiscard]] const PprofTables& tables() const { return to_; }

 private:
  std::uint32_t text(std::string_view text) {
    to_.texts.push_back(text);
    return count_of(to_.texts.size()) - 1;
  }

  void add(const PprofLocation& from) {
    const auto lines = profile_.lines(from.lines);
    to_.locations.push_back({.address = from.address,
                             .mapping = from.mapping,
                             .first_line = count_of(to_.lines.size()),
                             .line_count = count_of(lines.size()),
                             .is_folded = from.is_folded});
    to_.lines.insert(to_.lines.end(), lines.begin(), lines.end());
  }

  std::uint32_t add_over_share() {
    const std::uint32_t name = text(kOverShare);
    to_.mappings.push_back({.file = name});
    to_.functions.push_back({.name = name});
    to_.lines.push_back({.function = count_of(to_.functions.size()) - 1});
    to_.locations.push_back({.mapping = count_of(to_.mappings.size()) - 1,
                             .first_line = count_of(to_.lines.size()) - 1,
                             .line_count = 1});
    return count_of(to_.locations.size()) - 1;
  }

  const PprofProfile& profile_;
  PprofTables to_;
  std::uint32_t over_ = 0;  // its location
};

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
  PprofMerge limited;
  {
    TablesOfProfile tables(profile);
    for (std::size_t i = 0; i < is_over.size(); ++i) {
      tables.add(i, is_over[i]);
      if (!is_over[i]) continue;
      parts.over_share_samples += static_cast<std::uint64_t>(profile.values(i)[0]);
    }
    if (!limited.add(tables.tables())) return {};  // an empty merge takes any profile
  }
  PprofProfile result = std::move(limited).take();
  result.default_sample_type = profile.default_sample_type;
  result.period = profile.period;
  result.time_ns = profile.time_ns;
  result.duration_ns = profile.duration_ns;
  result.comments = profile.comments;
  profile = std::move(result);
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
