// What a BPF object that cannot be loaded says.

#pragma once

#include <bpf/libbpf.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <string.h>

#include "formats/base/result.h"

namespace profd {

// libbpf prints to stderr. Errors have what matters, and the end of the verifier's log.
inline int discard_log(libbpf_print_level /*level*/, const char* /*format*/,
                       va_list /*arguments*/) noexcept {
  return 0;
}

// `code` is a negative errno, `log` the verifier's, ended by NUL unless it is full. `what` is the
// message without its reason. The verifier's own refusals can be EACCES, and have a log: then it is
// not a right that is missing.
[[nodiscard]] inline Error load_error(std::string what, int code, const std::vector<char>& log) {
  std::string message = std::move(what) + ": " + std::strerror(-code);
  constexpr std::size_t kShown = 400;  // the log ends with the reason
  const std::string_view text(log.data(), ::strnlen(log.data(), log.size()));
  if (!text.empty()) {
    message += "; verifier: ";
    message += text.substr(text.size() > kShown ? text.size() - kShown : 0);
  }
  const bool denied = code == -EPERM || (code == -EACCES && text.empty());
  return fail(denied ? ErrorCode::kPermissionDenied : ErrorCode::kUnsupported, std::move(message),
              denied ? "run profd as root or with CAP_BPF and CAP_PERFMON" : "");
}

}  // namespace profd
