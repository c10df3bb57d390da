// The client at the other end of a connection to one of the daemon's sockets.

#pragma once

#include <sys/types.h>

#include <optional>

#include "collectors/host/peer.h"
#include "formats/base/result.h"

namespace profd {

class UidOwners;

struct Caller {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;            // for hints only: the kernel may have given the pid to another process
  bool privileged = false;  // root or a member of the group profd
};

// The gid of the group profd, whose members may do everything; none: the host has no such group.
[[nodiscard]] std::optional<gid_t> find_privileged_group();

// `peer` with the membership of that group.
[[nodiscard]] Caller caller_of(const Peer& peer);

// The user whose limits apply to an unprivileged caller: the owner of its uid. None: it is
// privileged.
[[nodiscard]] std::optional<uid_t> user_of(const Caller& caller, UidOwners& owners);

// Reads the peer's credentials, which the kernel recorded when it connected (SO_PEERCRED,
// SO_PEERGROUPS).
[[nodiscard]] Result<Caller> identify_caller(int connection, std::optional<gid_t> privileged_group);

}  // namespace profd
