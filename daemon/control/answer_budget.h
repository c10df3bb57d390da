// The memory of answers that unprivileged users have not read yet.
//
// An answer is in memory until its client has read it, for as long as the client likes at 64 KiB in
// 10 s, and a user has many connections. So the large answers of one user, and those of all users,
// have a limit. Small ones are not counted: a connection has one at a time, so the limit of
// connections is theirs. On the io thread.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <memory>

namespace profd {

class AnswerBudget {
 public:
  static constexpr std::size_t kSmallBytes = std::size_t{64} << 10;
  static constexpr std::size_t kMaxBytesOfUser = std::size_t{8} << 20;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;  // of all users

  // Counts as its bytes until it is destroyed. The budget must outlive it.
  class Share {
   public:
    Share(AnswerBudget& budget, uid_t user, std::size_t bytes);
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share();

   private:
    AnswerBudget& budget_;
    uid_t user_;
    std::size_t bytes_;
  };

  // For one more answer; null: there is no room for it. A user without another large one has room
  // for one that is over kMaxBytesOfUser alone, since otherwise it could not be read at all.
  [[nodiscard]] std::unique_ptr<Share> take(uid_t user, std::size_t bytes);

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::map<uid_t, std::size_t> bytes_of_;  // never 0
  std::size_t bytes_ = 0;                  // of all
};

}  // namespace profd
