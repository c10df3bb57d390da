// The limits of results on the disk: of all of them together, of those of unprivileged users
// together (half of that), and of those of one such user (an eighth or 64 MiB, whichever is less).
// On a disk that is almost full, unprivileged users have half, and one an eighth, of what their
// results and free space have together: the rest is for windows and for root.
//
// The io thread makes the accounts; a writer on any thread charges bytes to one while it writes.

#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "collectors/host/user_refusals.h"
#include "formats/base/result.h"

namespace profd {

// What one limit allows, and what is charged to it.
struct ResultLimit {
  std::atomic<std::uint64_t> max_bytes = 0;
  std::atomic<std::uint64_t> bytes = 0;
};

// The limits that one writer or result counts against. Any thread.
class ResultAccount {
 public:
  static constexpr std::uint64_t kUnknown = UINT64_MAX;  // free bytes

  // Has no limit.
  ResultAccount() = default;

  // `free_bytes` are those of the disk. False: a limit would be exceeded, and nothing is charged.
  [[nodiscard]] bool charge(std::uint64_t bytes, std::uint64_t free_bytes = kUnknown);
  // Charges them even over a limit.
  void charge_anyway(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);

  // Why the last charge that failed was refused.
  [[nodiscard]] Error refusal() const;

 private:
  friend class ResultQuota;

  // The limits, of which that of the user refuses first.
  enum Whose : std::size_t { kOfUser, kOfUsers, kOfAll, kLimits };

  [[nodiscard]] std::array<std::uint64_t, kLimits> max_bytes(std::uint64_t free_bytes) const;

  std::array<std::shared_ptr<ResultLimit>, kLimits> limits_;  // null: none
  std::size_t refused_by_ = kOfAll;
  bool is_disk_full_ = false;  // that was why
  std::shared_ptr<std::atomic<std::uint64_t>> refused_;
  std::optional<uid_t> user_;
  UserRefusals* refusals_ = nullptr;
};

class ResultQuota {
 public:
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kMaxUserBytes = std::uint64_t{64} << 20;

  // Refused charges of unprivileged users are counted in `refusals`, which must outlive all
  // accounts. Null: they are not counted by user.
  explicit ResultQuota(UserRefusals* refusals = nullptr) : refusals_(refusals) {
    set_max_bytes(kMaxBytes);
  }

  // Of all results. What is on the disk stays.
  void set_max_bytes(std::uint64_t max_bytes);

  // Of privileged callers without `user`, otherwise of an unprivileged one.
  [[nodiscard]] ResultAccount account_of(std::optional<uid_t> user);

  // What is on the disk or being written.
  [[nodiscard]] std::uint64_t bytes() const { return all_->bytes; }
  // How often a charge was refused.
  [[nodiscard]] std::uint64_t refused() const { return *refused_; }

 private:
  [[nodiscard]] std::uint64_t user_max_bytes() const;

  UserRefusals* refusals_;
  std::shared_ptr<ResultLimit> all_ = std::make_shared<ResultLimit>();
  std::shared_ptr<ResultLimit> unprivileged_ = std::make_shared<ResultLimit>();
  std::map<uid_t, std::shared_ptr<ResultLimit>> users_;
  std::shared_ptr<std::atomic<std::uint64_t>> refused_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace profd
