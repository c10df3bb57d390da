// What an error of the parser says about the file of the request.

#pragma once

#include "formats/base/result.h"

namespace profd {

// Whether the parser may read the file later: the host was busy, or the parser died for a reason
// other than this file.
[[nodiscard]] inline bool is_temporary(const Error& error) {
  return error.code == ErrorCode::kTimeout || error.code == ErrorCode::kBusy ||
         error.code == ErrorCode::kUnavailable;
}

}  // namespace profd
