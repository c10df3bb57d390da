// The daemon: makes its parts, serves, reloads its configuration, and shuts down.

#pragma once

#include "daemon/service/running_config.h"
#include "daemon/service/service_manager.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// Runs the daemon until SIGTERM or SIGINT; SIGHUP reloads the configuration. `control_socket` is
// one that the service manager listens on; not valid: the daemon makes its own. kIo: data of
// sessions are lost, since they could not be stored at the end.
[[nodiscard]] Result<void> run_daemon(RunningConfig& config, ServiceManager& manager,
                                      UniqueFd control_socket);

}  // namespace profd
