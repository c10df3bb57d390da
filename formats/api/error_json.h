// An error on the wire: {"error":{"code","message","hint"}}, the same from the control socket and
// from profctl (docs/api.md).

#pragma once

#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

[[nodiscard]] std::string to_json(const Error& error);

// What the other end reports as an error; a body that is none becomes an internal error that quotes
// it, cut short.
[[nodiscard]] Error parse_error(std::string_view json);

[[nodiscard]] std::string_view error_code_name(ErrorCode code);  // "not_found"

}  // namespace profd
