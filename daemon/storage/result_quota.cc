#include "daemon/storage/result_quota.h"

#include <algorithm>
#include <string>

namespace profd {
namespace {

constexpr std::uint64_t kPartOfUsers = 2;
constexpr std::uint64_t kPartOfUser = 8;

}  // namespace

std::array<std::uint64_t, ResultAccount::kLimits> ResultAccount::max_bytes(
    std::uint64_t free_bytes) const {
  std::array<std::uint64_t, kLimits> max{};
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    if (limits_[i]) max[i] = limits_[i]->max_bytes;
  }
  if (free_bytes == kUnknown || !limits_[kOfUsers]) return max;
  const std::uint64_t room = limits_[kOfUsers]->bytes + free_bytes;
  max[kOfUsers] = std::min(max[kOfUsers], room / kPartOfUsers);
  max[kOfUser] = std::min(max[kOfUser], room / kPartOfUser);
  return max;
}

bool ResultAccount::charge(std::uint64_t bytes, std::uint64_t free_bytes) {
  const auto max = max_bytes(free_bytes);
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    ResultLimit* const limit = limits_[i].get();
    if (limit == nullptr) continue;
    const std::uint64_t before = limit->bytes.fetch_add(bytes);
    if (before <= max[i] && bytes <= max[i] - before) continue;
    for (std::size_t charged = 0; charged <= i; ++charged) {
      if (limits_[charged]) limits_[charged]->bytes -= bytes;
    }
    refused_by_ = i;
    is_disk_full_ = max[i] < limit->max_bytes;
    ++*refused_;
    if (refusals_ != nullptr && user_) refusals_->add(*user_, "results_refused");
    return false;
  }
  return true;
}

void ResultAccount::charge_anyway(std::uint64_t bytes) {
  for (const auto& limit : limits_) {
    if (limit) limit->bytes += bytes;
  }
}

void ResultAccount::give_back(std::uint64_t bytes) {
  for (const auto& limit : limits_) {
    if (limit) limit->bytes -= bytes;
  }
}

Error ResultAccount::refusal() const {
  if (is_disk_full_) {
    return fail(ErrorCode::kTooLarge, "the disk with profd's state directory is almost full",
                "try again when there is room: the session keeps its data");
  }
  if (refused_by_ == kOfUser) {
    return fail(
        ErrorCode::kTooLarge, "the result would exceed the limit of your results on the disk",
        "'profctl list' shows yours; 'profctl stop ID' fetches one, which removes it there");
  }
  if (user_) {
    const char* const whose = refused_by_ == kOfUsers ? "all users' results" : "all results";
    return fail(ErrorCode::kTooLarge,
                std::string("the result would exceed the limit of ") + whose + " on the disk",
                "try again later: those of other users are removed after 15 minutes");
  }
  return fail(ErrorCode::kTooLarge, "the result would exceed the limit of all results on the disk",
              "raise results_max_bytes; or fetch others with 'profctl stop ID', which removes them "
              "there");
}

std::uint64_t ResultQuota::user_max_bytes() const {
  return std::min(kMaxUserBytes, all_->max_bytes / kPartOfUser);
}

void ResultQuota::set_max_bytes(std::uint64_t max_bytes) {
  all_->max_bytes = max_bytes;
  unprivileged_->max_bytes = max_bytes / kPartOfUsers;
  for (const auto& [uid, limit] : users_) limit->max_bytes = user_max_bytes();
}

ResultAccount ResultQuota::account_of(std::optional<uid_t> user) {
  ResultAccount account;
  account.refused_ = refused_;
  account.user_ = user;
  account.refusals_ = refusals_;
  account.limits_[ResultAccount::kOfAll] = all_;
  if (!user) return account;
  // Users without results and writers are forgotten.
  std::erase_if(users_, [](const auto& entry) {
    return entry.second.use_count() == 1 && entry.second->bytes == 0;
  });
  std::shared_ptr<ResultLimit>& limit = users_[*user];
  if (!limit) limit = std::make_shared<ResultLimit>();
  limit->max_bytes = user_max_bytes();
  account.limits_[ResultAccount::kOfUsers] = unprivileged_;
  account.limits_[ResultAccount::kOfUser] = limit;
  return account;
}

}  // namespace profd
