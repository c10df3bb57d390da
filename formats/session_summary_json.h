// SessionSummary as a JSON value, for the messages that carry one. Users outside formats/ want
// session_summary.h.

#pragma once

#include <boost/json/object.hpp>

#include "formats/json_text.h"
#include "formats/session_summary.h"

namespace profd {

[[nodiscard]] boost::json::object counts_json(const CountsByReason& counts);
[[nodiscard]] boost::json::object summary_json(const SessionSummary& summary);
[[nodiscard]] Result<void> read_json(const boost::json::value& value, SessionSummary& out);

}  // namespace profd
