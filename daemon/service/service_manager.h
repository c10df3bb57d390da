// Talks to the service manager (systemd): notifications by the protocol of sd_notify(3), datagrams
// of KEY=VALUE lines to the socket that NOTIFY_SOCKET names, and sockets by that of
// sd_listen_fds(3).
//
// The man pages have the protocols, so that services need not link libsystemd. Without the variable
// nothing is sent. A notification never blocks: a manager that does not read misses it.

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/unique_fd.h"

namespace profd {

// Returns an environment variable, empty if it is not set, and unsets it, so that no child gets it.
[[nodiscard]] std::string take_variable(const char* name);

class ServiceManager {
 public:
  // Reads and unsets NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
  static ServiceManager from_environment();

  void ready();      // started, or done with a reload
  void reloading();  // until ready()
  void stopping();
  void status(std::string_view text);  // one line, shown by systemctl status
  void alive();                        // the watchdog's ping

  [[nodiscard]] bool is_present() const { return socket_.valid(); }

  // The service is killed after this time without alive(); none: there is no watchdog.
  [[nodiscard]] std::optional<std::chrono::microseconds> watchdog_timeout() const {
    return watchdog_timeout_;
  }

 private:
  ServiceManager() = default;

  void send(std::string_view lines);

  UniqueFd socket_;  // connected; not valid: there is no manager
  std::optional<std::chrono::microseconds> watchdog_timeout_;
};

// The sockets that the manager passes to this process: descriptors from 3 on, announced by
// LISTEN_PID and LISTEN_FDS, close-on-exec. Unsets the variables, so a second call returns none.
// The manager listens while profd does not run, so clients that connect meanwhile wait for it.
[[nodiscard]] std::vector<UniqueFd> take_passed_sockets();

}  // namespace profd
