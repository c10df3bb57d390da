// Whose a uid is: its own, or, for a subordinate uid, the user's whose range it is in. All limits
// of one user count by it, since a user with 65,536 subordinate uids would otherwise be as many
// users. A subordinate uid of root's is its own: it is of a container, whose users are not root.
// The ranges of a name that /etc/passwd lacks (LDAP, SSSD) are one user, apart from its own uid.
//
// Reads /etc/subuid, which only root writes, and /etc/passwd when one of both has changed, and
// checks that once a second at most. Without /etc/subuid each uid is its own. Not thread safe.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/proc/subuid.h"

namespace profd {

class UidOwners {
 public:
  static constexpr std::chrono::seconds kCheckInterval{1};

  explicit UidOwners(std::string subuid = "/etc/subuid", std::string passwd = "/etc/passwd",
                     std::chrono::steady_clock::duration interval = kCheckInterval);

  // Of a uid in several ranges, the first one counts.
  [[nodiscard]] uid_t owner_of(uid_t uid);

 private:
  // What changes when a file is written or replaced.
  struct Stamp {
    std::int64_t changed_ns = 0;
    std::uint64_t inode = 0;
    std::int64_t bytes = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  [[nodiscard]] static Stamp stamp_of(const std::string& path);

  void read_if_changed();

  std::string subuid_;
  std::string passwd_;
  std::chrono::steady_clock::duration interval_;
  std::chrono::steady_clock::time_point next_check_;
  Stamp subuid_stamp_;
  Stamp passwd_stamp_;
  std::vector<SubordinateRange> ranges_;
};

}  // namespace profd
