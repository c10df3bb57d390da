#include "ctl/output/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "formats/base/unique_fd.h"

namespace profd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

Result<pid_t> spawn(std::vector<std::string>& arguments, int out) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
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

// False: the time is over.
bool read_until_end(int fd, Clock::time_point end, std::string& out) {
  std::array<char, 4096> bytes{};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got <= 0) return true;
    if (out.size() < kMostBytes) out.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

int status_of(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<ProgramOutput> output_of(std::vector<std::string> arguments,
                                std::chrono::milliseconds limit) {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) return fail_errno("could not make a pipe");
  const UniqueFd read_end(fds[0]);
  UniqueFd write_end(fds[1]);
  const Result<pid_t> pid = spawn(arguments, write_end.get());
  if (!pid) return pid.error();
  write_end.reset();
  ProgramOutput output;
  const bool ended = read_until_end(read_end.get(), Clock::now() + limit, output.out);
  if (!ended) ::kill(*pid, SIGKILL);
  output.status = status_of(*pid);
  if (!ended) return fail(ErrorCode::kTimeout, arguments.front() + " did not end in time");
  return output;
}

}  // namespace profd
