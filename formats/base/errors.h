// The errors that readers of input return most.

#pragma once

#include <string>
#include <utility>

#include "formats/base/result.h"

namespace profd {

// The hint where a file ends too early.
inline constexpr const char* kCutFileHint =
    "the program that writes it may still run: wait for its end; if it has ended, copy the file "
    "again";

[[nodiscard]] inline Error malformed(std::string message) {
  return fail(ErrorCode::kMalformed, std::move(message));
}

[[nodiscard]] inline Error invalid_argument(std::string message, std::string hint = {}) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint));
}

// The error of a file that is the caller's own. kNotFound, which is of processes, sessions and
// sources, becomes kIo.
[[nodiscard]] inline Error of_own_file(Error error) {
  if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kIo;
  return error;
}

// On one line, for logs: "could not read /x: Permission denied (run profctl as root)".
[[nodiscard]] inline std::string error_text(const Error& error) {
  return error.message + (error.hint.empty() ? "" : " (" + error.hint + ")");
}

}  // namespace profd
