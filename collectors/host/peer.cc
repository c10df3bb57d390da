#include "collectors/host/peer.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace profd {
namespace {

// With too small a buffer, SO_PEERGROUPS fails with ERANGE and gives the size that it needs.
std::vector<gid_t> groups_of(int connection) {
  std::vector<gid_t> groups(64);
  while (true) {
    auto bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    const int got = ::getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
    if (got != 0 && errno != ERANGE) return {};
    groups.resize(bytes / sizeof(gid_t));
    if (got == 0) return groups;
  }
}

}  // namespace

Result<Peer> peer_of(int connection, std::optional<gid_t> group) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return fail_errno("could not read the credentials of a client");
  }
  bool is_in_group = false;
  if (group) {
    const std::vector<gid_t> groups = groups_of(connection);
    is_in_group = peer.gid == *group || std::ranges::find(groups, *group) != groups.end();
  }
  return Peer{.uid = peer.uid, .gid = peer.gid, .pid = peer.pid, .is_in_group = is_in_group};
}

}  // namespace profd
