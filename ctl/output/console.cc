#include "ctl/output/console.h"

#include <ostream>

#include "formats/api/error_json.h"
#include "formats/base/utf8_text.h"

namespace profd {

ExitCode exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return kExitUsage;
    case ErrorCode::kNotFound:
      return kExitNotFound;
    case ErrorCode::kPermissionDenied:
      return kExitNotPermitted;
    case ErrorCode::kUnsupported:
      return kExitUnsupported;
    case ErrorCode::kUnavailable:
      return kExitNoDaemon;
    default:
      return kExitFailed;
  }
}

int report(const Console& console, const Error& error) {
  if (console.json) {
    console.err << to_json(error) << "\n";
  } else {
    console.err << "profctl: " << printable(error.message) << "\n";
    if (!error.hint.empty()) console.err << "hint: " << printable(error.hint) << "\n";
  }
  return exit_code_of(error.code);
}

void say_not_shown(const std::string& what, const std::string& options, const Console& console) {
  console.err << "profctl: " << what << " not shown: use " << options << "\n";
}

std::string printable(std::string_view text) { return without_controls(valid_utf8(text)); }

}  // namespace profd
