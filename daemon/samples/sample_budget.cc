#include "daemon/samples/sample_budget.h"

#include <algorithm>
#include <utility>

namespace profd {
namespace {

// Of the whole budget: up to the first, one user may take all; the second is each user's.
constexpr std::uint64_t kFreePart = 2;
constexpr std::uint64_t kPartOfOneUser = 8;

std::uint64_t rest_of(std::uint64_t limit, std::uint64_t used) {
  return limit - std::min(limit, used);
}

}  // namespace

std::uint64_t SampleBudget::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void SampleBudget::open(uid_t user) {
  const std::lock_guard lock(mutex_);
  ++users_[user].objects;
}

void SampleBudget::close(uid_t user, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  bytes_ -= bytes;
  const auto found = users_.find(user);
  found->second.bytes -= bytes;
  if (--found->second.objects == 0) users_.erase(found);
}

std::uint64_t SampleBudget::room_of(uid_t user) const {
  const std::lock_guard lock(mutex_);
  const auto found = users_.find(user);
  const std::uint64_t own = found == users_.end() ? 0 : found->second.bytes;
  return std::min(rest_of(max_bytes_, bytes_), std::max(rest_of(max_bytes_ / kFreePart, bytes_),
                                                        rest_of(max_bytes_ / kPartOfOneUser, own)));
}

void SampleBudget::charge(uid_t user, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
  users_.find(user)->second.bytes += bytes;
}

void SampleBudget::discharge(uid_t user, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  bytes_ -= bytes;
  users_.find(user)->second.bytes -= bytes;
}

ChargedBytes::ChargedBytes(std::shared_ptr<SampleBudget> budget, uid_t user)
    : budget_(std::move(budget)), user_(user) {
  budget_->open(user_);
}

std::shared_ptr<ChargedBytes> ChargedBytes::another() const {
  return std::make_shared<ChargedBytes>(budget_, user_);
}

void ChargedBytes::add(std::uint64_t bytes) noexcept {
  if (bytes == 0) return;  // of a sample whose stack is known, as most are
  budget_->charge(user_, bytes);
  bytes_ += bytes;
}

void ChargedBytes::remove(std::uint64_t bytes) noexcept {
  budget_->discharge(user_, bytes);
  bytes_ -= bytes;
}

}  // namespace profd
