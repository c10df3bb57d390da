// SessionSummary as a JSON value, for the messages that carry one. Users outside formats/ want
// session_summary.h.

#pragma once

#include <boost/json/value.hpp>

#include "formats/api/session_summary.h"
#include "formats/base/result.h"

namespace profd {

[[nodiscard]] boost::json::value json_of(const SessionSummary& summary);
[[nodiscard]] Result<void> read_json(const boost::json::value& value, SessionSummary& out);

}  // namespace profd
