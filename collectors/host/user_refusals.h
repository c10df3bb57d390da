// Who was refused what: how often something of an unprivileged user was refused, dropped or cut, by
// reason, since the start. For status.
//
// A reason is the name of a counter of status that has the same refusals of all users together
// ("jit.refused.too_large"), or that of a request ("POST /v1/sessions: too_large"). A subordinate
// uid counts as its user. Any thread: a call takes some 100 ns, with a mutex inside.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "collectors/host/uid_owners.h"
#include "formats/api/status_info.h"

namespace profd {

class UserRefusals {
 public:
  // One more user takes the place of the one whose last refusal is the longest ago. The counts of
  // that one are added to those of all others before.
  static constexpr std::size_t kMaxUsers = 64;
  // Of one user. Further ones count as kOtherReasons, which is one of these.
  static constexpr std::size_t kMaxReasons = 32;
  static constexpr std::string_view kOtherReasons = "other";
  // Like 0, this is no user who can be refused something.
  static constexpr uid_t kUnknownUser = UINT32_MAX;

  explicit UserRefusals(UidOwners owners = UidOwners());

  // Without memory for it, a refusal is not counted.
  void add(uid_t uid, std::string_view reason, std::uint64_t times = 1) noexcept;

  // By uid; those that were replaced are the last one, without a uid.
  [[nodiscard]] std::vector<StatusInfo::User> users() const;

 private:
  struct User {
    CountsByReason refused;
    std::uint64_t last = 0;  // the number of its last refusal
  };

  User& find_or_replace(uid_t user);

  mutable std::mutex mutex_;  // guards the members below
  UidOwners owners_;
  std::map<uid_t, User> users_;
  CountsByReason others_;
  std::uint64_t last_ = 0;
};

}  // namespace profd
