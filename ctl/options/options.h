// profctl's command line.

#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "formats/api/history_api.h"
#include "formats/api/start_request.h"
#include "formats/base/result.h"

namespace profd {

enum class Verb {
  kStart,
  kStop,
  kDump,
  kList,
  kStatus,
  kRecord,
  kExport,
  kHistory,
  kPs,
  kConfig,
  kDoctor,
  kConvert,
};

enum class ConvertFormat {
  kProfile,
  kFolded,
  kTrace,
};

struct ConvertOptions {
  std::vector<std::string> logs;
  std::vector<std::string> binaries;  // the main program first
  std::string build_id;               // hexadecimal, of the main program; empty: any
  std::string output;                 // a file; "-": standard output
  ConvertFormat format = ConvertFormat::kProfile;
  bool calls = false;  // numbers of calls in place of times
  bool force = false;  // whatever the binaries are
};

struct Options {
  Verb verb = Verb::kStatus;
  std::string socket;
  bool json = false;
  StartRequest request;              // start, record; of export and ps the target only
  std::string session;               // stop, dump
  TimeRange range;                   // export, history
  std::uint64_t limit = 0;           // history: windows; ps: processes
  std::string output;                // stop, dump, record, export; empty: ./profd-RESULT
  ConvertOptions convert;            // convert
  std::vector<std::string> command;  // record: what stands behind "--"
  bool ask_runtime = false;          // start, record, stop: the processes of --pid
};

// Asked for and not an error: the text of --help or --version, for standard output.
struct HelpText {
  std::string text;
};

// `arguments` without the program's name. Every error is kInvalidArgument.
[[nodiscard]] Result<std::variant<Options, HelpText>> parse_options(
    std::vector<std::string> arguments);

}  // namespace profd
