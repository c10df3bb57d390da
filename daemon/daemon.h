// The daemon: makes its parts, serves, reloads its configuration, and shuts down.

#pragma once

#include <memory>

#include "daemon/service/running_config.h"
#include "daemon/service/service_manager.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class Daemon {
 public:
  // Both references must outlive the daemon. `control_socket` is one that the service manager
  // listens on; not valid: the daemon makes its own.
  static Result<std::unique_ptr<Daemon>> start(ConfigInForce& config, ServiceManager& manager,
                                               UniqueFd control_socket);
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  ~Daemon();

  // Serves until SIGTERM or SIGINT; SIGHUP reloads the configuration. kIo: data of sessions are
  // lost, since they could not be stored at the end.
  Result<void> run();

 private:
  struct State;

  explicit Daemon(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace profd
