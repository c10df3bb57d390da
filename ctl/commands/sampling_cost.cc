#include "ctl/commands/sampling_cost.h"

#include <algorithm>
#include <ostream>

#include "ctl/output/text.h"

namespace profd {

void warn_of_cost(const StartRequest& request, const Console& console) {
  if (request.frequency_hz <= kCostlyFrequency) return;
  constexpr double kSecondsOfTick = 10e-6;  // of a stack of usual depth
  const double percent = 100 * kSecondsOfTick * static_cast<double>(request.frequency_hz);
  console.err
      << "profctl: " << request.frequency_hz << " samples a second take about "
      << cpu_text(std::min(percent, 100.0))
      << " of each busy CPU, and some may be lost\nhint: --freq 999 shows the same functions\n";
}

void say_that_stacks_are_always_on(const Console& console) {
  console.err << "profctl: stacks are always recorded, with and without -g\n";
}

}  // namespace profd
