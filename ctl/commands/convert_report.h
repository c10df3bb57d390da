// What `profctl convert` prints about the traces: how many calls they have, and what was missing or
// malformed in them.

#pragma once

#include <cstdint>
#include <string>

#include "ctl/output/console.h"
#include "formats/xray/clock.h"
#include "formats/xray/report.h"

namespace profd {

struct ConvertReport {
  xray::Report counts;
  xray::Clock clock;
  std::uint64_t stacks = 0;
  std::uint64_t unknown_functions = 0;  // functions that no binary has
  std::string output;
};

// One sentence, then a line for each kind of issue.
void print_report(const ConvertReport& report, const Console& console);

// One line of JSON.
[[nodiscard]] std::string to_json(const ConvertReport& report);

}  // namespace profd
