// Writes an app's calls as files: COMM.PID.xray.prof (exclusive time, one sample per microsecond),
// COMM.PID.xray-calls.prof (one sample per call) and the images that pprof needs for them, and the
// calls with names as one file. On the worker.

#pragma once

#include <chrono>
#include <string>

#include "collectors/xray/live_result.h"
#include "daemon/names/code_naming.h"
#include "daemon/storage/result_writer.h"
#include "daemon/xray/target.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/xray/detach_reason.h"

namespace profd {

// The calls of a session or a trace.
struct XrayMeasurement {
  std::string session;  // its id
  std::chrono::system_clock::time_point started;
  std::chrono::nanoseconds lasted{};
  XrayTarget target;
  bool privileged = false;  // the owner; an unprivileged one gets fewer images
  xray::DetachReason end{};
  UniqueFd result;  // of the follower or the parser (live_result.h), a sealed memfd
};

// Adds all files to `writer`, without committing it. Returns the summary for session.json.
[[nodiscard]] Result<SessionSummary> write_xray(const XrayMeasurement& measurement,
                                                CodeNaming& naming, ResultWriter& writer);

}  // namespace profd
