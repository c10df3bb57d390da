// The lines of a function, with their samples.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctl/views/report.h"
#include "ctl/views/selection.h"

namespace profd {

struct SourceLine {
  std::string file;        // empty: unknown
  std::uint32_t line = 0;  // 0: unknown
  SampleValue self{};      // of samples whose innermost frame it is
  SampleValue total{};     // a line that is in a stack several times counts once
};

// Of the functions that are true, by number of the function; by file and line. `shown` gets the sum
// of their samples.
[[nodiscard]] std::vector<SourceLine> source_lines(const Selection& selection,
                                                   const std::vector<bool>& functions,
                                                   SampleValue& shown);

}  // namespace profd
