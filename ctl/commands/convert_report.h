// What `profctl convert` says of the traces that it read: how much there was, and what of it was
// not as it should be.

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
  std::uint64_t unknown_functions = 0;  // that no binary has
  std::string output;
};

// A sentence, and a line for each thing that was lost or guessed.
void print_report(const ConvertReport& report, const Console& console);

// One line of JSON.
[[nodiscard]] std::string to_json(const ConvertReport& report);

}  // namespace profd
