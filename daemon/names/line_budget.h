// The CPU time for reading DWARF: of one session's result, or of continuous mode or of a session
// whose samples are taken again and again, where it is refilled as time passes.
//
// The user whose samples cause the work pays for it, not the owner of the file: any user can map
// the files of root and run code at each of their addresses. Users get half of it together, and one
// user an eighth while other users wait, so that root keeps its part, and each user too. On a
// worker.

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

  // Users with a part of their own. All others share one.
  static constexpr std::size_t kMaxUsers = 16;
  // How long the refill of all of it takes: in continuous mode, 0.2 s of CPU time a minute.
  static constexpr std::chrono::minutes kRefillTime{10};

  [[nodiscard]] static LineBudget of_session() {
    return LineBudget(std::chrono::seconds(5), std::chrono::milliseconds(625));
  }
  // A file is read again when its samples are worth that: one per cent of the CPU time that they
  // stand for at 19 Hz. To open a large file for one more sample each minute takes more than all
  // other work on a host that is idle.
  [[nodiscard]] static LineBudget of_continuous_mode() {
    return LineBudget(std::chrono::seconds(2), std::chrono::milliseconds(250),
                      std::chrono::microseconds(500));
  }
  // Of one session: its reader may take samples every second or two. 0.05 s of CPU time a minute,
  // since `profctl top` has to cost less than 0.5 % of a CPU in all.
  [[nodiscard]] static LineBudget of_taken_samples() {
    return LineBudget(std::chrono::milliseconds(500), std::chrono::milliseconds(62),
                      std::chrono::microseconds(500));
  }

  // `for_sample`: the time that a sample without lines is worth; 0: of one session, where no file
  // waits for more samples.
  LineBudget(Time all, Time one_user, Time for_sample = {})
      : all_(all),
        one_user_(one_user),
        for_sample_(for_sample),
        left_(all),
        left_for_users_(all / 2),
        left_for_others_(one_user) {}

  // Whether a file that takes about `cost` is to be read for `samples` that have no lines.
  [[nodiscard]] bool is_worth(Time cost, std::uint64_t samples) const {
    return for_sample_.count() == 0 || samples >= static_cast<std::uint64_t>((cost / for_sample_));
  }

  // For the samples of this user, a uid. Not positive: it is spent.
  [[nodiscard]] Time left_for(std::uint32_t user) const {
    if (user == kRoot) return left_;
    const Time of_users = std::min(left_, left_for_users_);
    return is_one_alone_ ? of_users : std::min(of_users, part_of(user));
  }

  // May be more than what is left: a call of libdw cannot be interrupted. What users take beyond
  // their part is missing in that part later, and not in root's.
  void spend(std::uint32_t user, Time time) {
    if (user == kRoot) {
      left_ -= time;
      return;
    }
    left_ -= std::clamp(left_for_users_, Time(0), time);
    left_for_users_ -= time;
    (has_part(user) ? by_user_.try_emplace(user, one_user_).first->second : left_for_others_) -=
        time;
  }

  // Whether the samples of only one user other than root wait for time. Then the part of all users
  // is for this one; when another one comes, this one has spent its own part, and more.
  void set_one_alone(bool is_one_alone) { is_one_alone_ = is_one_alone; }

  // In a session: whether some of the time is kept for users who may have asked for less than their
  // part. When all have asked, share_rest() gives it to those who need more.
  [[nodiscard]] bool keeps_rest() const { return for_sample_.count() == 0 && !is_rest_shared_; }
  void share_rest() {
    is_rest_shared_ = true;
    is_one_alone_ = true;
    left_for_users_ = left_;
  }

  // `passed`: the time since the last call.
  void refill(Time passed) {
    const double share = std::chrono::duration<double>(passed) / kRefillTime;
    const auto refilled = [share](Time left, Time limit) {
      return std::min(limit, left + std::chrono::duration_cast<Time>(limit * share));
    };
    left_ = refilled(left_, all_);
    left_for_users_ = refilled(left_for_users_, all_ / 2);
    left_for_others_ = refilled(left_for_others_, one_user_);
    for (auto& [user, left] : by_user_) left = refilled(left, one_user_);
    std::erase_if(by_user_, [this](const auto& entry) { return entry.second >= one_user_; });
  }

 private:
  static constexpr std::uint32_t kRoot = 0;

  [[nodiscard]] bool has_part(std::uint32_t user) const {
    return by_user_.size() < kMaxUsers || by_user_.contains(user);
  }
  [[nodiscard]] Time part_of(std::uint32_t user) const {
    const auto known = by_user_.find(user);
    if (known != by_user_.end()) return known->second;
    return has_part(user) ? one_user_ : left_for_others_;
  }

  Time all_;
  Time one_user_;
  Time for_sample_;
  Time left_;
  Time left_for_users_;
  Time left_for_others_;  // users without a part of their own
  std::map<std::uint32_t, Time> by_user_;
  bool is_one_alone_ = false;
  bool is_rest_shared_ = false;
};

}  // namespace profd
