// TargetRequest as a JSON value, for the messages that carry one. Users outside formats/ want
// start_request.h.

#pragma once

#include <boost/json/value.hpp>

#include "formats/api/start_request.h"

namespace profd {

[[nodiscard]] boost::json::value json_of(const TargetRequest& target);
[[nodiscard]] Result<void> read_json(const boost::json::value& value, TargetRequest& out);

// The forms and the counts of its terms; kInvalidArgument. An empty one is fine.
[[nodiscard]] Result<void> check_target(const TargetRequest& target);

}  // namespace profd
