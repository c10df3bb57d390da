// CPU use over time, as the page draws it: all windows of the history, each with the groups that
// used most.
//
//     {"groups":[{"name","is_unit","bars"}],"since","until",
//      "windows":[{"since","until","seconds","cpu_percent","samples","top":[[GROUP,PERCENT]]}]}
//
// Times are milliseconds since 1970, percent of one CPU. A GROUP is a number of the first list, in
// which the one with most CPU time comes first; `bars` is its use over the whole time, as text.
// `since` and `until` are the windows of `range`; of a range without limits, those of the last 10
// minutes.

#pragma once

#include <string>

#include "ctl/client/client.h"
#include "formats/api/history_api.h"
#include "formats/base/result.h"

namespace profd {

// The oldest window first.
[[nodiscard]] Result<std::string> timeline_json(Client& client, const TargetRequest& target,
                                                const TimeRange& range);

}  // namespace profd
