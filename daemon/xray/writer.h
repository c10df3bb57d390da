// What was measured of an app's calls as files: COMM.PID.xray.prof (exclusive time, one sample a
// microsecond), COMM.PID.xray-calls.prof (one sample a call), what pprof needs beside them, and the
// summary that becomes session.json. On the worker.

#pragma once

#include <chrono>
#include <string>

#include "collectors/parser/parser.h"
#include "collectors/xray/live_result.h"
#include "daemon/storage/result_writer.h"
#include "daemon/xray/target.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/xray/detach_reason.h"

namespace profd {

// All that is needed to write a session's profiles, cut loose from the io thread.
struct XrayMeasurement {
  std::string session;  // its id
  std::chrono::system_clock::time_point started;
  std::chrono::nanoseconds lasted{};
  XrayTarget target;
  bool privileged = false;  // with the disk
  xray::DetachReason end{};
  UniqueFd result;  // as the process that followed the app gave it
};

// Adds all files to `result`, without committing it.
[[nodiscard]] Result<SessionSummary> write_xray(const XrayMeasurement& measurement, Parser& parser,
                                                ResultWriter& result);

}  // namespace profd
