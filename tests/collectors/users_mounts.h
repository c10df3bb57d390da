// A process whose mount namespace belongs to an unprivileged user, who may mount there what he
// likes.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "formats/base/unique_fd.h"

namespace profd::test {

class UsersMounts {
 public:
  // Runs `prepare` in the process, in a user and a mount namespace of its own, before it sleeps. It
  // may only make system calls, and returns whether it succeeded. Needs root.
  explicit UsersMounts(const std::function<bool()>& prepare);
  UsersMounts(const UsersMounts&) = delete;
  UsersMounts& operator=(const UsersMounts&) = delete;
  ~UsersMounts();

  [[nodiscard]] bool is_ready() const { return ready_; }
  [[nodiscard]] std::uint32_t tgid() const { return static_cast<std::uint32_t>(pid_); }
  // A path as the process sees it: below /proc/PID/root.
  [[nodiscard]] std::string seen(const std::string& path) const;

 private:
  pid_t pid_ = -1;
  bool ready_ = false;
};

// An overlay without an upper layer, as a user can mount it: for `prepare`.
[[nodiscard]] bool mount_overlay(const std::string& lower, const std::string& other_lower,
                                 const std::string& at);

}  // namespace profd::test
