#include "ctl/views/source_lines.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ctl/views/selected_stacks.h"

namespace profd {
namespace {

struct LineSums {
  SampleValue self{};
  SampleValue total{};
};
using LinesByPlace = std::map<std::pair<std::uint32_t, std::uint32_t>, LineSums>;

}  // namespace

std::vector<SourceLine> source_lines(const Selection& selection, const std::vector<bool>& functions,
                                     SampleValue& shown) {
  const Samples& samples = selection.samples();
  LinesByPlace lines;
  SelectedStacks stacks(selection);
  for (const Samples::Row& row : samples.rows()) {
    if (!stacks.read(row)) continue;
    const auto stack = stacks.frames();
    std::vector<const LineSums*> counted;
    for (std::size_t i = 0; i < stack.size(); ++i) {
      const SampledFrame& frame = samples.frames()[stack[i]];
      if (!functions[frame.function]) continue;
      LineSums& sums = lines[{samples.functions()[frame.function].file, frame.line}];
      if (i + 1 == stack.size()) sums.self.add(row.value);
      if (std::ranges::find(counted, &sums) != counted.end()) continue;
      counted.push_back(&sums);
      sums.total.add(row.value);
    }
    if (!counted.empty()) shown.add(row.value);
  }
  std::vector<SourceLine> sorted;
  sorted.reserve(lines.size());
  for (const auto& [place, sums] : lines) {
    sorted.push_back({.file = std::string(samples.text(place.first)),
                      .line = place.second,
                      .self = sums.self,
                      .total = sums.total});
  }
  return sorted;
}

}  // namespace profd
