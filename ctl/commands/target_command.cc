#include "ctl/commands/target_command.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace profd {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) return fail_errno("could not make a pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Whether a byte came, and not the end.
bool read_byte(int fd) {
  char byte = 0;
  ssize_t got = 0;
  do {
    got = ::read(fd, &byte, 1);
  } while (got < 0 && errno == EINTR);
  return got == 1;
}

// In the child. Only calls that are safe after a fork.
[[noreturn]] void run_child(const std::vector<char*>& arguments, const sigset_t& mask, int gate,
                            int failure) {
  ::signal(SIGPIPE, SIG_DFL);  // an ignored signal would stay ignored over exec
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  if (!read_byte(gate)) ::_exit(0);
  ::execvp(arguments.front(), arguments.data());
  const int error = errno;
  (void)!::write(failure, &error, sizeof(error));
  ::_exit(127);
}

std::vector<char*> as_argv(std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return argv;
}

int as_shell_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<Command> Command::fork(const std::vector<std::string>& arguments,
                              const sigset_t& signal_mask) {
  auto gate = make_pipe();
  if (!gate) return gate.error();
  auto failure = make_pipe();
  if (!failure) return failure.error();
  std::vector<std::string> copy = arguments;
  const std::vector<char*> argv = as_argv(copy);
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("could not fork");
  if (pid == 0) {
    gate->write.reset();  // else the child would hold its own gate open
    run_child(argv, signal_mask, gate->read.get(), failure->write.get());
  }
  return Command(pid, arguments.front(), std::move(gate->write), std::move(failure->read));
}

Command::Command(pid_t pid, std::string name, UniqueFd gate, UniqueFd failure)
    : pid_(pid), name_(std::move(name)), gate_(std::move(gate)), failure_(std::move(failure)) {}

Command::Command(Command&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      name_(std::move(other.name_)),
      gate_(std::move(other.gate_)),
      failure_(std::move(other.failure_)),
      status_(other.status_) {}

Command::~Command() {
  if (pid_ == 0 || !gate_.valid()) return;
  gate_.reset();
  wait();
}

Result<void> Command::let_go() {
  const bool told = ::write(gate_.get(), "x", 1) == 1;
  gate_.reset();
  int error = told ? 0 : errno;
  if (told && ::read(failure_.get(), &error, sizeof(error)) != sizeof(error)) return {};
  const ErrorCode code = error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return fail(code, "could not run " + name_ + ": " + std::strerror(error));
}

std::optional<int> Command::status() {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = as_shell_status(status);
  return status_;
}

int Command::wait() {
  int status = 0;
  while (!status_) {
    if (::waitpid(pid_, &status, 0) == pid_) {
      status_ = as_shell_status(status);
    } else if (errno != EINTR) {
      status_ = 0;
    }
  }
  return *status_;
}

void Command::send(int signal) {
  if (!status()) ::kill(pid_, signal);
}

}  // namespace profd
