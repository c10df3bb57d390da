// The memory that samples of the sessions of all unprivileged users may take together, whether they
// are being counted, wait to be written, or could not be written.
//
// One user may have half of it while no other has any. Once users have half, each may have an
// eighth, so that one user does not take what the others need. Thread safe: samples are counted on
// the io thread and destroyed on workers. A call takes some 100 ns, with a mutex inside.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace profd {

class SampleBudget {
 public:
  explicit SampleBudget(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}
  SampleBudget(const SampleBudget&) = delete;
  SampleBudget& operator=(const SampleBudget&) = delete;

  // Of all users.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  friend class ChargedBytes;

  struct User {
    std::uint64_t bytes = 0;
    std::size_t objects = 0;  // ChargedBytes
  };

  void open(uid_t user);
  void close(uid_t user, std::uint64_t bytes) noexcept;
  [[nodiscard]] std::uint64_t room_of(uid_t user) const;
  void charge(uid_t user, std::uint64_t bytes) noexcept;
  void discharge(uid_t user, std::uint64_t bytes) noexcept;

  std::uint64_t max_bytes_;
  mutable std::mutex mutex_;  // guards the members below
  std::uint64_t bytes_ = 0;
  std::map<uid_t, User> users_;
};

// What some samples of one user take of the budget. The destructor returns it: the object lives as
// long as the samples. One thread at a time.
class ChargedBytes {
 public:
  // `user` is the owner of the session's uid (UidOwners).
  ChargedBytes(std::shared_ptr<SampleBudget> budget, uid_t user);
  ChargedBytes(const ChargedBytes&) = delete;
  ChargedBytes& operator=(const ChargedBytes&) = delete;
  ~ChargedBytes() { budget_->close(user_, bytes_); }

  // For other samples of the same user; nothing is charged yet.
  [[nodiscard]] std::shared_ptr<ChargedBytes> another() const;

  // What the user may have more.
  [[nodiscard]] std::uint64_t room() const { return budget_->room_of(user_); }
  // Charges also what is over the room.
  void add(std::uint64_t bytes) noexcept;
  void remove(std::uint64_t bytes) noexcept;  // of those that were added

 private:
  std::shared_ptr<SampleBudget> budget_;
  uid_t user_;
  std::uint64_t bytes_ = 0;
};

}  // namespace profd
