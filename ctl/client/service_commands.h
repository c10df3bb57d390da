// What a user types to control the daemon, for hints: commands of systemd on a host that runs it,
// and what to do by hand elsewhere.

#pragma once

#include <string_view>

namespace profd {

// Each completes a hint such as "start it: ".
struct ServiceCommands {
  std::string_view start;
  std::string_view restart;
  std::string_view reload;
  std::string_view log;
};

[[nodiscard]] bool host_runs_systemd();

[[nodiscard]] ServiceCommands service_commands(bool by_systemd);
[[nodiscard]] ServiceCommands service_commands();  // those of this host

}  // namespace profd
