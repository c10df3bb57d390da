#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <exception>
#include <iostream>

#include "ctl/commands/commands.h"
#include "ctl/doctor/program_child.h"
#include "ctl/sources/file_reader.h"

namespace {

// As in `profctl ps | head`.
bool is_pipe_without_reader(int fd) {
  pollfd end{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&end, 1, 0) == 1 && (end.revents & POLLERR) != 0;
}

}  // namespace

int main(int argc, char** argv) {
  profd::sandbox::run_as_child(argc, argv, {profd::kProgramCheckChild, profd::kSourceReaderChild});
  ::signal(SIGPIPE, SIG_IGN);  // a closed standard output is then a failed write
  try {
    const profd::Console console{.out = std::cout,
                                 .err = std::cerr,
                                 .err_screen = profd::screen_of(STDERR_FILENO),
                                 .screen = profd::screen_of(STDOUT_FILENO)};
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
