#include "daemon/service/caller.h"

#include <grp.h>

#include "collectors/host/uid_owners.h"

namespace profd {
namespace {

constexpr const char* kPrivilegedGroup = "profd";

}  // namespace

std::optional<gid_t> find_privileged_group() {
  const group* const found = ::getgrnam(kPrivilegedGroup);
  if (found == nullptr) return std::nullopt;
  return found->gr_gid;
}

Result<Caller> identify_caller(int connection, std::optional<gid_t> privileged_group) {
  const auto peer = peer_of(connection, privileged_group);
  if (!peer) return peer.error();
  return caller_of(*peer);
}

Caller caller_of(const Peer& peer) {
  return {.uid = peer.uid,
          .gid = peer.gid,
          .pid = peer.pid,
          .privileged = peer.uid == 0 || peer.is_in_group};
}

std::optional<uid_t> user_of(const Caller& caller, UidOwners& owners) {
  return caller.privileged ? std::nullopt : std::optional(owners.owner_of(caller.uid));
}

}  // namespace profd
