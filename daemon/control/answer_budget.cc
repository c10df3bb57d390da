#include "daemon/control/answer_budget.h"

namespace profd {

AnswerBudget::Share::Share(AnswerBudget& budget, uid_t user, std::size_t bytes)
    : budget_(budget), user_(user), bytes_(bytes) {
  budget_.bytes_ += bytes_;
  if (bytes_ != 0) budget_.bytes_of_[user_] += bytes_;
}

AnswerBudget::Share::~Share() {
  budget_.bytes_ -= bytes_;
  const auto held = budget_.bytes_of_.find(user_);
  if (bytes_ != 0 && (held->second -= bytes_) == 0) budget_.bytes_of_.erase(held);
}

std::unique_ptr<AnswerBudget::Share> AnswerBudget::take(uid_t user, std::size_t bytes) {
  if (bytes <= kSmallBytes) bytes = 0;
  const auto held = bytes_of_.find(user);
  if (bytes > kMaxBytes - bytes_) return nullptr;
  if (bytes != 0 && held != bytes_of_.end() && held->second + bytes > kMaxBytesOfUser) {
    return nullptr;
  }
  return std::make_unique<Share>(*this, user, bytes);
}

}  // namespace profd
