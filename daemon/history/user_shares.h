// Limits the part of the history that belongs to one unprivileged user, so that nobody can push the
// windows of others out of it by many processes or files, long paths and names, or stacks that
// never repeat.
//
// Over the limit of a file, the rarest stacks of a user become one stack `[over share]` of their
// process. Where the processes of a user take more than half of the limit by themselves, those with
// the fewest samples become one process `[over share]` with the pid 0, which has their owner. No
// sample is lost. The limit shrinks as the sum of the user's parts of all stored files approaches
// the user's eighth of the history. Subordinate uids count as their user; labels and owners stay
// those of the uid itself. On the window worker, except for UserSums.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "collectors/host/uid_owners.h"
#include "daemon/history/window_file.h"
#include "daemon/history/window_sums.h"
#include "formats/profile/pprof_profile.h"

namespace profd {

// The name of the stack, and of the process.
inline constexpr std::string_view kOverShare = "[over share]";

// Of a user's stacks and names before they are packed: an eighth of 8 MiB. A host that compiles on
// two CPUs has half of it in a minute.
inline constexpr std::size_t kMaxUserBytes = std::size_t{1} << 20;

// Anyone may have many subordinate uids, so that the users beyond these have one share together.
inline constexpr std::size_t kMaxSharingUsers = 7;

// The same for an hour, whose windows share most stacks.
inline constexpr std::size_t kMaxUserBytesOfHour = std::size_t{8} << 20;

// How many bytes of a file, before they are packed, each user may have.
struct UserLimits {
  std::size_t others = kMaxUserBytes;             // of users that `by_uid` does not have
  std::map<std::uint32_t, std::size_t> by_uid{};  // UserBytes::kOthers: unknown users too

  [[nodiscard]] std::size_t of(std::optional<std::uint32_t> uid) const;
};

using SamplesByUser = std::map<std::uint32_t, std::uint64_t>;

struct UserParts {
  std::uint64_t over_share_samples = 0;  // that are in `[over share]` now
  SamplesByUser over_share_by_uid{};     // those of known users, as UidOwners has them
  std::vector<UserBytes> users;          // what is left of each, before it is packed
};

// `processes` has those of the profile's labels, with the real uid of each. uid 0 has no limit, and
// neither have profd's own sandboxed processes, which no user starts. The sets of labels do not
// keep their indexes.
UserParts limit_user_shares(PprofProfile& profile, WindowSums& processes, UidOwners& owners,
                            const UserLimits& limits = {});

// What the users have of all files of one kind: windows, or hours. On the io thread.
class UserSums {
 public:
  // Anyone may have many subordinate uids, so that the users beyond these have one sum.
  static constexpr std::size_t kMaxUsers = 1024;

  void add(const std::vector<UserBytes>& users);

  // The limits for the next file, at most `max_file_bytes` for a user. The kind may have
  // `max_bytes` on the disk: one user has an eighth of that, all unprivileged users have half. A
  // file takes at most one `steps`th of what is left, so that a user whose stacks are many keeps
  // the hottest ones in all files instead of all in the first ones and none in the others.
  [[nodiscard]] UserLimits limits(std::uint64_t max_bytes, std::uint64_t steps,
                                  std::size_t max_file_bytes) const;

 private:
  std::map<std::uint32_t, std::uint64_t> bytes_;
  std::uint64_t all_ = 0;
};

}  // namespace profd
