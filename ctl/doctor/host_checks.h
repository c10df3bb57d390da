// What profctl doctor looks at of the host and the service.

#pragma once

#include "ctl/client/client.h"
#include "formats/api/check_report.h"

namespace profd {

// What `profd --check` says, by the profd beside this program, else the one in PATH. For a caller
// who is not root, what depends on rights is unknown: the daemon has them and the caller has not.
[[nodiscard]] CheckReport check_host();

// The unit, the socket, what the daemon says of itself, and the disk that it writes to.
[[nodiscard]] CheckReport check_service(Client& client);

}  // namespace profd
