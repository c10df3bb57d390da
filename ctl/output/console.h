// What profctl says: data on standard output, everything else on standard error; one cause and one
// hint an error.

#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

// profctl's exit codes, which scripts rely on. `record` passes its command's status on instead, and
// has the last three.
enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitNoDaemon = 3,
  kExitNotFound = 4,
  kExitNotPermitted = 5,
  kExitUnsupported = 6,
  kExitRecordFailed = 125,
  kExitNotExecutable = 126,
  kExitCommandNotFound = 127,
};

[[nodiscard]] ExitCode exit_code_of(ErrorCode code);

// The streams of one run. Both are borrowed.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;
  bool json_errors = false;
};

// "profctl: CAUSE" and, where there is one, "hint: HINT"; or both as one line of JSON, the form
// that the daemon gives errors in (formats/api/error_json.h). Returns the error's exit code.
int report(const Console& console, const Error& error);

// Processes, and so the daemon's answers, may carry any bytes: control characters (C0, DEL and C1)
// become '?', and what is no UTF-8 U+FFFD, so that none of them can steer the terminal.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace profd
