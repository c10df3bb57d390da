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

}  // namespace profd
