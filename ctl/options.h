// profctl's command line.

#pragma once

#include <string>
#include <variant>
#include <vector>

#include "formats/result.h"
#include "formats/start_request.h"

namespace profd {

enum class Verb { kStart, kStop, kDump, kList, kStatus, kRecord };

struct Options {
  Verb verb = Verb::kStatus;
  std::string socket;
  bool json = false;
  StartRequest request;              // start, record
  std::string session;               // stop, dump
  std::string output;                // stop, dump, record; empty: ./profd-ID
  std::vector<std::string> command;  // record: what stands behind "--"
};

// Asked for and not an error: the text of --help or --version, for standard output.
struct HelpText {
  std::string text;
};

// `arguments` without the program's name. Every error is kInvalidArgument.
[[nodiscard]] Result<std::variant<Options, HelpText>> parse_options(
    std::vector<std::string> arguments);

}  // namespace profd
