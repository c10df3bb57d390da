// What the service manager (systemd) is told, by sd_notify(3)'s protocol: datagrams of KEY=VALUE
// lines to the socket that NOTIFY_SOCKET names.
//
// systemd asks services to speak it themselves rather than to link libsystemd for it. Without such
// a socket nothing is said. Telling never blocks: a manager that does not listen misses a line.

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "formats/base/unique_fd.h"

namespace profd {

class ServiceManager {
 public:
  // By NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, which are taken out of the environment: they
  // are this process's alone.
  static ServiceManager from_environment();

  void ready();      // started, or done with a reload
  void reloading();  // until ready()
  void stopping();
  void status(std::string_view text);  // one line, for people: systemctl status
  void alive();                        // the watchdog's ping

  [[nodiscard]] bool is_there() const { return socket_.valid(); }

  // The longest time without alive() after which the service is killed; none: nobody watches.
  [[nodiscard]] std::optional<std::chrono::microseconds> patience() const { return patience_; }

 private:
  ServiceManager() = default;

  void tell(std::string_view lines);

  UniqueFd socket_;  // connected; none: nobody to tell
  std::optional<std::chrono::microseconds> patience_;
};

}  // namespace profd
