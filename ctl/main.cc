// profctl: reads the command line, runs one verb.

#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <variant>
#include <vector>

#include "ctl/commands.h"
#include "ctl/options.h"

namespace profd {
namespace {

int run(const Options& options, const Console& console) {
  Client client(options.socket);
  switch (options.verb) {
    case Verb::kStart:
      return run_start(client, options, console);
    case Verb::kStop:
      return run_stop(client, options, console);
    case Verb::kDump:
      return run_dump(client, options, console);
    case Verb::kList:
      return run_list(client, options, console);
    case Verb::kStatus:
      return run_status(client, options, console);
    case Verb::kRecord:
      return run_record(client, options, console);
  }
  return kExitFailed;
}

// Data that did not reach standard output (a full disk, a reader that left) is a failure.
int flushed(int code) {
  std::cout.flush();
  return std::cout || code != kExitOk ? code : static_cast<int>(kExitFailed);
}

int run(const std::vector<std::string>& arguments) {
  const Console console{std::cout, std::cerr, ::isatty(STDERR_FILENO) == 1};
  const auto parsed = parse_options(arguments);
  if (!parsed) return report(console, parsed.error());
  if (const auto* help = std::get_if<HelpText>(&*parsed)) {
    std::cout << help->text;
    return flushed(kExitOk);
  }
  return flushed(run(std::get<Options>(*parsed), console));
}

}  // namespace
}  // namespace profd

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // a reader that left is seen as a failed write
  try {
    return profd::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& mistake) {
    std::cerr << "profctl: " << mistake.what() << "\n";
    return profd::kExitFailed;
  }
}
