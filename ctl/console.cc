#include "ctl/console.h"

#include <algorithm>
#include <ostream>

#include "formats/error_json.h"

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
    case ErrorCode::kMalformed:
    case ErrorCode::kTooLarge:
    case ErrorCode::kTimeout:
    case ErrorCode::kBusy:
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return kExitFailed;
}

int report(const Console& console, const Error& error) {
  if (console.json_errors) {
    console.err << to_json(error) << "\n";
    return exit_code_of(error.code);
  }
  console.err << "profctl: " << printable(error.message) << "\n";
  if (!error.hint.empty()) console.err << "hint: " << printable(error.hint) << "\n";
  return exit_code_of(error.code);
}

std::string printable(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](char c) { return (static_cast<unsigned char>(c) < 0x20) || c == 0x7f; }, '?');
  return out;
}

}  // namespace profd
