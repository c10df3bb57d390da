// Views as JSON, one line each: docs/api.md, "JSON of profctl".

#pragma once

#include <cstddef>
#include <string>

#include <boost/json/object.hpp>

#include "ctl/views/call_tree.h"
#include "ctl/views/diff.h"
#include "ctl/views/report.h"

namespace profd {

// At most `max_rows` rows at each level; "left_out" has the number of the others.
[[nodiscard]] std::string to_json(const Report& report, std::size_t max_rows);
[[nodiscard]] boost::json::object report_json(const Report& report, std::size_t max_rows);
[[nodiscard]] std::string to_json(const CallTree& tree);
// `threshold`: in percentage points. "beyond" has the number of rows that changed by more.
[[nodiscard]] std::string to_json(const Diff& diff, std::size_t max_rows, double threshold);

}  // namespace profd
