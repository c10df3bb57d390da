#include "ctl/process/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace profd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxOutputBytes = std::size_t{1} << 20;

Result<pid_t> spawn(std::vector<std::string>& arguments, int out) {
  const std::vector<char*> argv = argv_of(arguments);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  pid_t pid = -1;
  int error = ENOMEM;
  if (::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) == 0 &&
      ::posix_spawn_file_actions_adddup2(&actions, out, 1) == 0 &&
      ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) == 0) {
    error = ::posix_spawnp(&pid, argv.front(), &actions, nullptr, argv.data(), environ);
  }
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return fail_errno("could not run " + arguments.front(), error);
  return pid;
}

// Milliseconds for poll(), which waits without a limit for -1.
int poll_timeout(const std::optional<Clock::time_point>& deadline) {
  if (!deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

}  // namespace

Result<ProgramOutput> run_program(std::vector<std::string> arguments,
                                  std::chrono::milliseconds limit) {
  auto pipe = make_pipe();
  if (!pipe) return pipe.error();
  const Result<pid_t> pid = spawn(arguments, pipe->write_end.get());
  if (!pid) return pid.error();
  pipe->write_end.reset();
  auto out = read_until_closed(pipe->read_end.get(), kMaxOutputBytes, Clock::now() + limit);
  if (!out) ::kill(*pid, SIGKILL);
  const int status = wait_for_exit(*pid);
  if (!out) return fail(ErrorCode::kTimeout, arguments.front() + " did not end in time");
  return ProgramOutput{status, std::move(*out)};
}

std::vector<char*> argv_of(std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return argv;
}

int exit_status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

int wait_for_exit(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return exit_status_of(status);
}

Result<Pipe> make_pipe() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) return fail_errno("could not make a pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::optional<std::string> read_until_closed(int fd, std::size_t max_bytes,
                                             std::optional<Clock::time_point> deadline) {
  std::string text;
  std::array<char, 4096> bytes{};
  while (true) {
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, poll_timeout(deadline)) == 0) return std::nullopt;
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return text;
    const std::size_t room = max_bytes - std::min(text.size(), max_bytes);
    text.append(bytes.data(), std::min(static_cast<std::size_t>(got), room));
  }
}

}  // namespace profd
