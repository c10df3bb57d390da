// An app's calls as a profile with names (formats/profile/pprof_profile.h): the number of calls and
// the exclusive time of each stack. On the worker.

#pragma once

#include "collectors/xray/live_result.h"
#include "daemon/names/code_naming.h"
#include "daemon/xray/writer.h"
#include "formats/profile/pprof_profile.h"

namespace profd {

// The mappings of `live` have the paths of live_result.h.
[[nodiscard]] PprofProfile make_named_calls(const XrayMeasurement& measurement,
                                            const xray::LiveResult& live, CodeNaming& naming);

}  // namespace profd
