// CPU use over time, as the page draws it: all windows of the history, each with the groups that
// used most.
//
//     {"groups":[{"name","is_unit","bars"}],"since","until",
//      "windows":[{"since","until","seconds","cpu_percent","samples","top":[[GROUP,PERCENT]],
//                  "parts":[SAMPLES]}],"untimed"}
//
// Times are milliseconds since 1970, percent of one CPU, or of one thread where the windows are of
// the time off the CPU: `event` is that of HistoryRequest. A GROUP is a number of the first list,
// in which the one with most time comes first, at most 1,000; `bars` is its use over the whole
// time, as text, of the windows in which it is one of the 20 groups with most.
// `since` and `until` are the windows of `range`; of a range without limits, those of the last 10
// minutes.
//
// The windows of a session, or of a recording, are seconds, and have the samples of each 50th of
// it. Without times of samples there are none. `untimed` is the number of samples without a time:
// those after the last window, since the times are full.

#pragma once

#include <string>

#include "ctl/client/client.h"
#include "ctl/views/samples.h"
#include "formats/api/history_api.h"
#include "formats/base/result.h"

namespace profd {

// The oldest window first.
[[nodiscard]] Result<std::string> timeline_json(Client& client, const TargetRequest& target,
                                                const TimeRange& range,
                                                const std::string& event = {});
[[nodiscard]] std::string timeline_json(const Samples& samples);

}  // namespace profd
