// Limits the part of a window that belongs to one unprivileged user, so that nobody can push the
// windows of others out of the history by many files, long names, or stacks that never repeat.
//
// Over the limit, the rarest stacks of a user become one stack `[over share]` of their process: no
// sample is lost. On the window worker.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "formats/profile/pprof_profile.h"

namespace profd {

// By set of labels: the real uid of a process; none: unknown. uid 0 has no limit.
using UsersOfLabels = std::map<std::uint32_t, std::optional<std::uint32_t>>;

// Of a user's stacks and names before they are packed: an eighth of 8 MiB. A host that compiles on
// two CPUs has half of it in a minute.
inline constexpr std::size_t kMaxUserBytes = std::size_t{1} << 20;

// Anyone may have many subordinate uids, so that the users beyond these have one share together.
inline constexpr std::size_t kMaxSharingUsers = 7;

// Returns the number of samples that are in `[over share]` now. The sets of labels keep their
// texts, but not their indexes.
std::uint64_t limit_user_shares(PprofProfile& profile, const UsersOfLabels& users,
                                std::size_t max_bytes = kMaxUserBytes);

}  // namespace profd
