#include "collectors/host/user_refusals.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

namespace profd {
namespace {

void add_to(CountsByReason& counts, std::string_view reason, std::uint64_t times) {
  std::string name(reason);
  const bool is_full = counts.size() + 1 >= UserRefusals::kMaxReasons;
  if (is_full && !counts.contains(name)) name = UserRefusals::kOtherReasons;
  counts[std::move(name)] += times;
}

}  // namespace

UserRefusals::UserRefusals(UidOwners owners) : owners_(std::move(owners)) {}

void UserRefusals::add(uid_t uid, std::string_view reason, std::uint64_t times) noexcept {
  if (uid == 0 || uid == kUnknownUser || times == 0) return;
  try {
    const std::lock_guard lock(mutex_);
    const uid_t user = owners_.owner_of(uid);
    if (user == 0) return;
    User& refused = find_or_replace(user);
    add_to(refused.refused, reason, times);
    refused.last = ++last_;
  } catch (const std::exception&) {  // no memory
  }
}

UserRefusals::User& UserRefusals::find_or_replace(uid_t user) {
  const auto known = users_.find(user);
  if (known != users_.end()) return known->second;
  if (users_.size() >= kMaxUsers) {
    const auto oldest =
        std::ranges::min_element(users_, {}, [](const auto& entry) { return entry.second.last; });
    for (const auto& [reason, times] : oldest->second.refused) add_to(others_, reason, times);
    users_.erase(oldest);
  }
  return users_[user];
}

std::vector<StatusInfo::User> UserRefusals::users() const {
  const std::lock_guard lock(mutex_);
  std::vector<StatusInfo::User> users;
  for (const auto& [uid, user] : users_) users.push_back({.uid = uid, .refused = user.refused});
  if (!others_.empty()) users.push_back({.uid = std::nullopt, .refused = others_});
  return users;
}

}  // namespace profd
