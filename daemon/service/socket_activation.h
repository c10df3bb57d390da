// Sockets that the service manager listens on for us, by sd_listen_fds(3)'s protocol: descriptors
// from 3 on, announced by LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES.
//
// The manager holds them while we are down, so whoever connects meanwhile waits and is answered.

#pragma once

#include <string>
#include <vector>

#include "formats/base/unique_fd.h"

namespace profd {

struct PassedSocket {
  std::string name;  // the socket unit's FileDescriptorName=; "unknown" where none was given
  UniqueFd fd;       // close-on-exec
};

// Those that are meant for this process. Takes the variables out of the environment: a second call
// finds none.
[[nodiscard]] std::vector<PassedSocket> take_passed_sockets();

}  // namespace profd
