// What profctl doctor checks of the host and of the service.

#pragma once

#include "ctl/client/client.h"
#include "formats/api/check_report.h"

namespace profd {

// The report of `profd --check`, run from the directory of this program, else from PATH. If the
// caller is not root, a point that depends on privileges is unknown: the daemon has them.
[[nodiscard]] CheckReport check_host();

// The unit, the socket, the counters of the daemon, its configuration, and the disk that it writes
// to.
[[nodiscard]] CheckReport check_service(Client& client);

// Losses of all samples since the daemon started. Fewer than one in a thousand are ok: they change
// no profile visibly.
[[nodiscard]] CheckPoint check_losses(const StatusInfo::Ledger& ledger);

// Whether the daemon meets processes that its PID namespace hides. In that of the host there are
// none.
[[nodiscard]] CheckPoint check_namespace(const StatusInfo& status);

// Whether this kernel lets profd read the frames of interpreted code.
[[nodiscard]] CheckPoint check_interpreters(const StatusInfo::Interpreters& interpreters);

// Whether continuous mode is on and keeps all of its windows.
[[nodiscard]] CheckPoint check_history(const StatusInfo::Continuous& history);

}  // namespace profd
