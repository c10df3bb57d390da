#include "ctl/output/console.h"

#include <algorithm>
#include <ostream>

#include "formats/api/error_json.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

// U+0080 to U+009F: terminals interpret them as escape sequences.
void replace_c1(std::string& text) {
  for (std::size_t at = text.find('\xc2'); at != text.npos; at = text.find('\xc2', at + 1)) {
    const bool is_c1 = at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xa0;
    if (is_c1) text.replace(at, 2, "?");
  }
}

}  // namespace

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

std::string printable(std::string_view text) {
  std::string out = valid_utf8(text);
  std::ranges::replace_if(
      out, [](char c) { return (static_cast<unsigned char>(c) < 0x20) || c == 0x7f; }, '?');
  replace_c1(out);
  return out;
}

}  // namespace profd
