#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <string>

#include "collectors/parser/client.h"

namespace profd::parser {
namespace {

constexpr int kSocket = 3;

// What the child has: /dev/null twice, our stderr and the socket. dup2 in posix_spawn clears
// close-on-exec also where both are the same.
bool lay_out_descriptors(posix_spawn_file_actions_t& actions, int socket) {
  return ::posix_spawn_file_actions_adddup2(&actions, socket, kSocket) == 0 &&
         ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) == 0 &&
         ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0) == 0 &&
         ::posix_spawn_file_actions_addclosefrom_np(&actions, kSocket + 1) == 0;
}

// Signals as a fresh program finds them, and no terminal's: ^C is for the daemon to handle.
bool set_attributes(posix_spawnattr_t& attributes) {
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  return ::posix_spawnattr_setsigmask(&attributes, &none) == 0 &&
         ::posix_spawnattr_setsigdefault(&attributes, &all) == 0 &&
         ::posix_spawnattr_setflags(
             &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID) == 0;
}

}  // namespace

Result<pid_t> spawn_this_program(int socket) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  pid_t child = -1;
  int status = ENOMEM;
  if (lay_out_descriptors(actions, socket) && set_attributes(attributes)) {
    std::string name = "profd";
    std::string argument = kParserArgument;
    const std::array<char*, 3> arguments = {name.data(), argument.data(), nullptr};
    const std::array<char*, 1> environment = {nullptr};
    status = ::posix_spawn(&child, "/proc/self/exe", &actions, &attributes, arguments.data(),
                           environment.data());
  }
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (status != 0) return fail_errno("could not start the parser", status);
  return child;
}

}  // namespace profd::parser
