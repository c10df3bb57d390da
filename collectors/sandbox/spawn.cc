#include "collectors/sandbox/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

namespace profd::sandbox {
namespace {

// The child gets /dev/null twice, the daemon's stderr and the socket. posix_spawn's dup2 clears
// close-on-exec even where both descriptors are the same.
bool lay_out_descriptors(posix_spawn_file_actions_t& actions, int socket) {
  return ::posix_spawn_file_actions_adddup2(&actions, socket, kChildSocket) == 0 &&
         ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) == 0 &&
         ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0) == 0 &&
         ::posix_spawn_file_actions_addclosefrom_np(&actions, kChildSocket + 1) == 0;
}

// Default signal handling, and a session of its own: a terminal's ^C is for the daemon to handle.
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

Result<pid_t> spawn_child(const ChildKind& kind, int socket) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  pid_t child = -1;
  int status = ENOMEM;
  if (lay_out_descriptors(actions, socket) && set_attributes(attributes)) {
    std::string name = "profd";
    std::string argument = "--" + std::string(kind.name);
    const std::array<char*, 3> arguments = {name.data(), argument.data(), nullptr};
    // A child has one thread, and a limited address space: jemalloc gives freed pages back at once.
    std::string malloc_settings = "MALLOC_CONF=narenas:1,retain:false,dirty_decay_ms:0";
    const std::array<char*, 2> environment = {malloc_settings.data(), nullptr};
    status = ::posix_spawn(&child, "/proc/self/exe", &actions, &attributes, arguments.data(),
                           environment.data());
  }
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (status != 0) return fail_errno("could not start the " + std::string(kind.name), status);
  return child;
}

Result<ChildProcess> start_child(const SandboxLimits& limits, const Spawn& spawn) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail_errno("could not make a socket pair");
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  // The request waits in the socket until the child is there.
  const Request start{.operation = kStart, .words = {limits.memory_bytes, limits.file_bytes}};
  if (!send_packet(ours.get(), bytes_of(start))) return fail_errno("could not send the limits");
  const auto process = spawn(theirs.get());
  if (!process) return process.error();
  return ChildProcess{.socket = std::move(ours), .process = *process};
}

}  // namespace profd::sandbox
