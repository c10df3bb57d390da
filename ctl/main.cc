#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <exception>
#include <iostream>

#include "ctl/commands/commands.h"
#include "ctl/doctor/program_child.h"

namespace {

// As in `profctl ps | head`.
bool is_pipe_without_reader(int fd) {
  pollfd end{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&end, 1, 0) == 1 && (end.revents & POLLERR) != 0;
}

}  // namespace

int main(int argc, char** argv) {
  profd::sandbox::run_as_child(argc, argv, {profd::kProgramCheckChild});
  ::signal(SIGPIPE, SIG_IGN);  // a closed standard output is then a failed write
  try {
    const profd::Console console{std::cout, std::cerr, ::isatty(STDERR_FILENO) == 1};
    const int code = profd::run_profctl({argv + 1, argv + argc}, console);
    std::cout.flush();
    if (std::cout || code != profd::kExitOk) return code;
    if (is_pipe_without_reader(STDOUT_FILENO)) return 128 + SIGPIPE;
    return profd::report(
        console, profd::fail(profd::ErrorCode::kIo, "could not write to the standard output"));
  } catch (const std::exception& bug) {
    std::cerr << "profctl: " << bug.what() << "\n";
    return profd::kExitFailed;
  }
}
