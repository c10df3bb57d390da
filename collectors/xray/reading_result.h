// What was measured as profiles with the code addresses of the running app.

#pragma once

#include <cstdint>

#include "collectors/xray/live_result.h"
#include "formats/base/result.h"
#include "formats/xray/map.h"
#include "formats/xray/profile.h"
#include "formats/xray/stacks.h"

namespace profd::xray {

// The program that was measured.
struct MeasuredProgram {
  int program = -1;  // its file, borrowed; -1: it is not known, and the map is empty
  const FunctionMap& map;
  std::uint64_t first = 0;  // where the app says that its function 1 is
};

// kMalformed: it can't have been loaded where the app says.
[[nodiscard]] Result<void> check_place(const MeasuredProgram& program);

[[nodiscard]] Result<LiveResult> make_result(const Measured& measured, double ns_per_tick,
                                             const MeasuredProgram& program,
                                             std::uint64_t max_frames = kMaxProfileFrames);

}  // namespace profd::xray
