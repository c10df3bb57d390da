// Turns profiles and other sources of samples into a file of another form.

#pragma once

#include <string>
#include <vector>

#include "ctl/client/client.h"
#include "ctl/commands/sample_form.h"
#include "ctl/output/console.h"
#include "ctl/views/selection.h"
#include "formats/api/start_request.h"
#include "formats/base/result.h"

namespace profd {

struct SampleConversion {
  std::vector<std::string> sources;  // as SourceRequest::name; several are added up
  std::string output;                // a file; "-": standard output
  SampleForm form = SampleForm::kPprof;
  TargetRequest target;        // empty: all processes; it may be missing in some of the sources
  SelectionPatterns patterns;  // what is written of their samples
};

// Writes the output and says how many samples it has. Returns the exit code. kNotFound: no sample
// is of the target and left by the patterns.
[[nodiscard]] Result<int> convert_samples(const SampleConversion& options, Client& client,
                                          const Console& console);

}  // namespace profd
