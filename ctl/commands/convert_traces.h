// Turns XRay traces that the caller has into a profile, folded stacks or a timeline. It needs no
// daemon.

#pragma once

#include <string>
#include <vector>

#include "ctl/commands/sample_form.h"
#include "ctl/output/console.h"
#include "formats/base/result.h"

namespace profd {

struct TraceConversion {
  std::vector<std::string> logs;
  std::vector<std::string> binaries;    // the main program first
  std::string build_id;                 // hexadecimal, of the main program; empty: any
  std::string output;                   // a file; "-": standard output
  SampleForm form = SampleForm::kProf;  // or kFolded, kTrace
  bool calls = false;                   // counts of calls instead of times
  bool force = false;
};

// Whether the file begins as a Flight Data Recorder trace.
[[nodiscard]] bool is_xray_trace(const std::string& path);

// Writes the output and says what was found. Returns the exit code.
[[nodiscard]] Result<int> convert_traces(const TraceConversion& options, const Console& console);

}  // namespace profd
