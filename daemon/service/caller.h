// The client at the other end of a connection to the control socket.

#pragma once

#include <sys/types.h>

namespace profd {

// The kernel's record of the peer (SO_PEERCRED, SO_PEERGROUPS), read once at accept.
struct Caller {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;  // for messages only: the kernel may have given the pid to another process
  bool privileged = false;  // root or a member of the group profd
};

}  // namespace profd
