// The errors that readers of input return most.

#pragma once

#include <string>
#include <utility>

#include "formats/base/result.h"

namespace profd {

[[nodiscard]] inline Error malformed(std::string message, std::string hint = {}) {
  return fail(ErrorCode::kMalformed, std::move(message), std::move(hint));
}

[[nodiscard]] inline Error invalid_argument(std::string message, std::string hint = {}) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint));
}

}  // namespace profd
