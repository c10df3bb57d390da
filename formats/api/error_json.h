// Errors as JSON: {"error":{"code","message","hint"}}, in answers of the control socket and on the
// standard error of `profctl --json` (docs/api.md).

#pragma once

#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

[[nodiscard]] std::string to_json(const Error& error);

// The error in a body. A body of another form becomes an internal error that quotes the start of
// it.
[[nodiscard]] Error parse_error(std::string_view json);

[[nodiscard]] std::string_view error_code_name(ErrorCode code);  // "not_found"
[[nodiscard]] unsigned http_status_of(ErrorCode code);           // of an answer: 404

}  // namespace profd
