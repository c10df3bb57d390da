#include <signal.h>
#include <unistd.h>

#include <exception>
#include <iostream>

#include "ctl/commands/commands.h"

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // a closed standard output is then a failed write
  try {
    const profd::Console console{std::cout, std::cerr, ::isatty(STDERR_FILENO) == 1};
    const int code = profd::run_profctl({argv + 1, argv + argc}, console);
    std::cout.flush();
    return std::cout || code != profd::kExitOk ? code : static_cast<int>(profd::kExitFailed);
  } catch (const std::exception& bug) {
    std::cerr << "profctl: " << bug.what() << "\n";
    return profd::kExitFailed;
  }
}
