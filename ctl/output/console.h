// What profctl prints: data on standard output, everything else on standard error. An error is one
// cause and one hint.

#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>

#include "ctl/output/terminal.h"
#include "formats/base/result.h"

namespace profd {

// The exit codes of profctl, which scripts rely on. `record -- COMMAND` exits with the status of
// its command, or with one of the last three.
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

// The streams of one run, borrowed, and how to write to them.
struct Console {
  std::ostream& out;
  std::ostream& err;
  Screen err_screen{};  // of standard error, when profctl started
  bool json = false;    // --json: answers and errors are each one line of JSON
  Screen screen{};      // of standard output
};

// Prints "profctl: CAUSE" and, if there is one, "hint: HINT"; or both as JSON, in the form in which
// the daemon sends errors (formats/api/error_json.h). Returns the exit code of the error.
int report(const Console& console, const Error& error);

// Lists of text end there unless --all or --limit is given: what is left fits on a screen.
inline constexpr std::size_t kShownRows = 20;

// Says on standard error that a list has more: "profctl: WHAT not shown: use OPTIONS".
void say_not_shown(const std::string& what, const std::string& options, const Console& console);

// Makes text of processes and of the daemon safe for a terminal: control characters (C0, DEL,
// C1) and format characters such as U+202E become '?', bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace profd
