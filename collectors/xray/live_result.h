// The result of following an app or of reading a trace: profiles with the code addresses of the
// program, and the counts of the records. A follower or parser makes it, the daemon decodes it.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/base/result.h"
#include "formats/profile/profile.h"
#include "formats/xray/map.h"
#include "formats/xray/profile.h"
#include "formats/xray/report.h"
#include "formats/xray/stacks.h"

namespace profd::xray {

// The paths in a result's mapping lines of the program and of the image of functions that the
// program does not have. The daemon replaces them.
inline constexpr std::string_view kProgramPath = "program";
inline constexpr std::string_view kUnknownPath = "unknown";

struct LiveResult {
  Report report;
  std::uint64_t functions = 0;  // of the program
  std::uint64_t patched = 0;
  double ns_per_tick = 0;
  Profile exclusive{};
  Profile calls{};
  std::string unknown_image{};  // empty: not needed
};

[[nodiscard]] std::string encode(const LiveResult& result);
// kMalformed for anything that encode() does not write.
[[nodiscard]] Result<LiveResult> decode_live_result(std::string_view bytes);

struct MeasuredProgram {
  int file = -1;  // borrowed; -1: the program is unknown, and the map is empty
  const FunctionMap& map;
  std::uint64_t first = 0;  // address of function 1 in the app, as the app reports it
};

// kMalformed: the program can't be loaded at the address that the app reports.
[[nodiscard]] Result<void> check_address(const MeasuredProgram& program);

// Makes a result without the counts of the program's functions.
[[nodiscard]] Result<LiveResult> make_result(const Measured& measured, double ns_per_tick,
                                             const MeasuredProgram& program,
                                             std::uint64_t max_frames = kMaxProfileFrames);

}  // namespace profd::xray
