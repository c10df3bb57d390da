#include <signal.h>
#include <unistd.h>

#include <exception>
#include <iostream>

#include "ctl/commands/commands.h"
#include "ctl/doctor/program_child.h"

int main(int argc, char** argv) {
  profd::sandbox::run_as_child(argc, argv, {profd::kProgramCheckChild});
  ::signal(SIGPIPE, SIG_IGN);  // a closed standard output is then a failed write
  try {
    const profd::Console console{std::cout, std::cerr, ::isatty(STDERR_FILENO) == 1};
    const int code = profd::run_profctl({argv + 1, argv + argc}, console);
    std::cout.flush();
    if (std::cout || code != profd::kExitOk) return code;
    return profd::report(
        console, profd::fail(profd::ErrorCode::kIo, "could not write to the standard output"));
  } catch (const std::exception& bug) {
    std::cerr << "profctl: " << bug.what() << "\n";
    return profd::kExitFailed;
  }
}
