// The process at the other end of a UNIX socket, as the kernel recorded it when it connected.

#pragma once

#include <sys/types.h>

#include <optional>

#include "formats/base/result.h"

namespace profd {

struct Peer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;  // the kernel may have given it to another process since then
  bool is_in_group = false;
};

// `group`: whether the peer is a member of it (SO_PEERCRED, SO_PEERGROUPS).
[[nodiscard]] Result<Peer> peer_of(int connection, std::optional<gid_t> group);

}  // namespace profd
