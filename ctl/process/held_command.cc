#include "ctl/process/held_command.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ctl/process/child_process.h"

namespace profd {
namespace {

// Runs in the child: only calls that are safe after a fork of a process with threads. The parent
// sends a byte to resume it, or closes the channel to end it. The child sends the errno of an exec
// that failed; one that succeeds closes the channel.
[[noreturn]] void run_child(const std::vector<char*>& argv, const sigset_t& mask, int channel) {
  ::signal(SIGPIPE, SIG_DFL);  // profctl ignores it, and exec would keep that
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  char byte = 0;
  ssize_t got = 0;
  do {
    got = ::read(channel, &byte, 1);
  } while (got < 0 && errno == EINTR);
  if (got != 1) ::_exit(0);
  ::execvp(argv.front(), argv.data());
  const int error = errno;
  (void)!::write(channel, &error, sizeof(error));
  ::_exit(127);
}

}  // namespace

Result<HeldCommand> HeldCommand::fork(const std::vector<std::string>& arguments,
                                      const sigset_t& signal_mask, Output output) {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    return fail_errno("could not make a socket pair");
  }
  UniqueFd ours(fds[0]);
  const UniqueFd of_child(fds[1]);
  std::vector<std::string> copy = arguments;
  const std::vector<char*> argv = argv_of(copy);
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("could not fork");
  if (pid == 0) {
    ours.reset();  // else the child would never see the parent close the channel
    if (output == Output::kStandardError) ::dup2(STDERR_FILENO, STDOUT_FILENO);
    run_child(argv, signal_mask, of_child.get());
  }
  return HeldCommand(pid, arguments.front(), std::move(ours));
}

HeldCommand::HeldCommand(HeldCommand&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      name_(std::move(other.name_)),
      channel_(std::move(other.channel_)),
      status_(other.status_) {}

HeldCommand::~HeldCommand() {
  if (pid_ == 0 || !channel_.valid()) return;
  channel_.reset();
  wait();
}

Result<void> HeldCommand::resume() {
  const UniqueFd channel = std::move(channel_);
  int error = 0;
  if (::send(channel.get(), "x", 1, MSG_NOSIGNAL) != 1) {
    error = errno;
  } else if (::read(channel.get(), &error, sizeof(error)) != sizeof(error)) {
    return {};
  }
  const ErrorCode code = error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return fail(code, "could not run " + name_ + ": " + std::strerror(error));
}

std::optional<int> HeldCommand::status() {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = exit_status_of(status);
  return status_;
}

int HeldCommand::wait() {
  if (!status_) status_ = wait_for_exit(pid_);
  return *status_;
}

void HeldCommand::send(int signal) {
  if (!status()) ::kill(pid_, signal);
}

}  // namespace profd
