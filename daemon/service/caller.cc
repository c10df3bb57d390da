#include "daemon/service/caller.h"

#include <grp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace profd {
namespace {

constexpr const char* kPrivilegedGroup = "profd";

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

std::optional<gid_t> find_privileged_group() {
  const group* const found = ::getgrnam(kPrivilegedGroup);
  if (found == nullptr) return std::nullopt;
  return found->gr_gid;
}

Result<Caller> identify_caller(int connection, std::optional<gid_t> privileged_group) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return fail_errno("could not read the credentials of a client");
  }
  Caller caller{.uid = peer.uid, .gid = peer.gid, .pid = peer.pid, .privileged = peer.uid == 0};
  if (!caller.privileged && privileged_group) {
    const std::vector<gid_t> groups = groups_of(connection);
    caller.privileged = peer.gid == *privileged_group ||
                        std::ranges::find(groups, *privileged_group) != groups.end();
  }
  return caller;
}

}  // namespace profd
