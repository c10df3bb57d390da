// One run of profctl inside the test.

#pragma once

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "ctl/commands/commands.h"
#include "ctl/output/console.h"

namespace profd {

struct Ran {
  int code = -1;
  std::string out;
  std::string err;
};

// Without a `screen`, standard output is a pipe; without an `err_screen`, standard error is one.
inline Ran run_with_socket(const std::filesystem::path& socket, std::vector<std::string> arguments,
                           const Screen& screen = {}, const Screen& err_screen = {}) {
  arguments.insert(arguments.begin(), {"--socket", socket.string()});
  std::ostringstream out;
  std::ostringstream err;
  const int code = run_profctl(arguments, Console{out, err, err_screen, false, screen});
  return {code, out.str(), err.str()};
}

}  // namespace profd
