// The CPU time for reading DWARF: of one session's result, or of continuous mode, where it is
// refilled as time passes.
//
// Files that root does not own get half of it together, and those of one user a part of that half,
// so that nobody's files use up the time for those of others. On a worker.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>

namespace profd {

class LineBudget {
 public:
  using Time = std::chrono::nanoseconds;

  // A user with subordinate ids can make files of many owners. Owners beyond these get nothing.
  static constexpr std::size_t kMaxOwners = 16;
  // How long the refill of all of it takes: 0.2 s of CPU time a minute.
  static constexpr std::chrono::minutes kRefillTime{10};

  [[nodiscard]] static LineBudget of_session() {
    return LineBudget(std::chrono::seconds(5), std::chrono::milliseconds(1250));
  }
  // A file is read again when its samples are worth that: one per cent of the CPU time that they
  // stand for at 19 Hz. To open a large file for one more sample each minute takes more than all
  // other work on a host that is idle.
  [[nodiscard]] static LineBudget of_continuous_mode() {
    return LineBudget(std::chrono::seconds(2), std::chrono::milliseconds(250),
                      std::chrono::microseconds(500));
  }

  // `for_sample`: the time that a sample without lines is worth; 0: no file waits for more samples.
  LineBudget(Time all, Time one_user, Time for_sample = {})
      : all_(all),
        one_user_(one_user),
        for_sample_(for_sample),
        left_(all),
        left_for_users_(all / 2) {}

  // Whether a file that takes about `cost` is to be read for `samples` that have no lines.
  [[nodiscard]] bool is_worth(Time cost, std::uint64_t samples) const {
    return for_sample_.count() == 0 || samples >= static_cast<std::uint64_t>((cost / for_sample_));
  }

  // For the files of this owner, a uid. Not positive: it is spent.
  [[nodiscard]] Time left_for(std::uint32_t owner) const {
    if (owner == kRoot) return left_;
    const auto known = by_owner_.find(owner);
    if (known == by_owner_.end() && by_owner_.size() >= kMaxOwners) return {};
    const Time own = known == by_owner_.end() ? one_user_ : known->second;
    return std::min({left_, left_for_users_, own});
  }

  // May be more than what is left: a call of libdw cannot be interrupted.
  void spend(std::uint32_t owner, Time time) {
    left_ -= time;
    if (owner == kRoot) return;
    left_for_users_ -= time;
    by_owner_.try_emplace(owner, one_user_).first->second -= time;
  }

  // `passed`: the time since the last call.
  void refill(Time passed) {
    const double share = std::chrono::duration<double>(passed) / kRefillTime;
    const auto refilled = [share](Time left, Time limit) {
      return std::min(limit, left + std::chrono::duration_cast<Time>(limit * share));
    };
    left_ = refilled(left_, all_);
    left_for_users_ = refilled(left_for_users_, all_ / 2);
    for (auto& [owner, left] : by_owner_) left = refilled(left, one_user_);
    std::erase_if(by_owner_, [this](const auto& entry) { return entry.second >= one_user_; });
  }

 private:
  static constexpr std::uint32_t kRoot = 0;

  Time all_;
  Time one_user_;
  Time for_sample_;
  Time left_;
  Time left_for_users_;
  std::map<std::uint32_t, Time> by_owner_;
};

}  // namespace profd
