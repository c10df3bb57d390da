// The words that stand behind options, from the command line to a request.

#pragma once

#include <string>
#include <vector>

#include "ctl/options/options.h"
#include "formats/base/result.h"

namespace CLI {
class App;
}

namespace profd {

// Option values as they stand on the command line; turned into a request once all of it is read.
struct OptionWords {
  std::vector<std::string> pids;
  std::vector<std::string> comms;
  std::vector<std::string> cgroups;
  std::vector<std::string> users;
  std::vector<std::string> units;
  std::vector<std::string> containers;
  bool all = false;
  bool no_children = false;
  std::string event;
  std::string functions;
  std::string frequency;
  std::string period;
  std::string duration;
  std::string since;
  std::string until;
  std::string last;
  std::string limit;
};

// An error of the command line, which is kInvalidArgument.
[[nodiscard]] Error usage(std::string message, std::string hint);

// Reads what was given to `verb`, the subcommand of out.verb, into `out`. An option that was given
// at all counts, so that an empty value is an error and not the default.
[[nodiscard]] Result<void> read_words(const CLI::App& verb, const OptionWords& words, Options& out);

}  // namespace profd
