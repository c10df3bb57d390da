#include "ctl/web/matched_samples.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ctl/views/group_key.h"
#include "ctl/views/selected_stacks.h"
#include "ctl/web/zoomed_tree.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

// What is known of a stack's frames from the outermost one to one of them.
struct OuterFrames {
  bool has_match = false;
  std::size_t steps = 0;  // of the zoom, that the frames are
};

// The samples of stacks that follow the zoom for so many steps, and no further.
struct ZoomDepth {
  bool has_stacks = false;
  SampleValue matched{};
};

std::vector<std::string> printable_names(const GroupTable& functions) {
  std::vector<std::string> names;
  names.reserve(functions.groups.size());
  for (const Group& group : functions.groups) {
    names.push_back(printable_utf8(group.name, kMaxPrintableBytes));
  }
  return names;
}

std::vector<std::uint32_t> steps_of_names(const std::vector<std::string>& names) {
  std::vector<std::uint32_t> steps;
  steps.reserve(names.size());
  for (const std::string& name : names) steps.push_back(zoom_step(name));
  return steps;
}

}  // namespace

SampleValue matched_samples(const Selection& selection, NameForm names, const std::string& pattern,
                            std::string_view zoom) {
  const Samples& samples = selection.samples();
  const GroupTable functions = group_frames(samples, {GroupKey::kFunction}, names);
  const std::vector<std::string> printable = printable_names(functions);
  const std::vector<bool> is_match = texts_with(pattern, printable);
  const std::vector<std::uint32_t> steps = steps_of_names(printable);
  const std::vector<std::uint32_t> wanted = zoom_steps(zoom);

  std::vector<ZoomDepth> depths(wanted.size() + 1);
  std::vector<OuterFrames> path;
  SelectedStacks stacks(selection);
  for (const Samples::Row& row : samples.rows()) {
    if (!stacks.read(row)) continue;
    path.resize(std::min(path.size(), stacks.shared()));
    for (const std::uint32_t frame : stacks.frames().subspan(path.size())) {
      const std::uint32_t function = functions.of[frame];
      OuterFrames next = path.empty() ? OuterFrames() : path.back();
      const bool is_on_way = next.steps == path.size() && next.steps < wanted.size();
      if (is_on_way && steps[function] == wanted[next.steps]) ++next.steps;
      if (is_match[function]) next.has_match = true;
      path.push_back(next);
    }
    const OuterFrames whole = path.empty() ? OuterFrames() : path.back();
    depths[whole.steps].has_stacks = true;
    if (whole.has_match) depths[whole.steps].matched.add(row.value);
  }
  while (depths.size() > 1 && !depths.back().has_stacks) depths.pop_back();
  return depths.back().matched;
}

}  // namespace profd
