// Who used the CPU in some samples: units with their processes, and containers.
//
//     {"rows":[{"text","target","kind","group","samples","cpu_ns"}],"left_out"}
//
// The largest unit first, each before its processes; then containers. `target` chooses the row
// ("unit:nginx.service", "pid:812"; empty: it can't be chosen), `kind` is unit, process or
// container, and `group` is its name in the timeline, if it has one. Texts are printable.

#pragma once

#include <string>

#include "ctl/views/samples.h"

namespace profd {

[[nodiscard]] std::string process_list_json(const Samples& samples);

}  // namespace profd
