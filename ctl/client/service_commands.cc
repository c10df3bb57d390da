#include "ctl/client/service_commands.h"

#include <unistd.h>

namespace profd {

// As sd_booted(3) does.
bool host_runs_systemd() { return ::access("/run/systemd/system", F_OK) == 0; }

ServiceCommands service_commands(bool by_systemd) {
  if (by_systemd) {
    return {.start = "systemctl start profd",
            .restart = "systemctl restart profd",
            .reload = "systemctl reload profd",
            .log = "journalctl -u profd"};
  }
  return {.start = "run profd as root",
          .restart = "end profd, then run it again as root",
          .reload = "kill -HUP PID (profctl status shows the pid)",
          .log = "the standard error of profd"};
}

ServiceCommands service_commands() { return service_commands(host_runs_systemd()); }

}  // namespace profd
