// What came of following an app: as the process that followed it tells the daemon.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/base/result.h"
#include "formats/profile/profile.h"
#include "formats/xray/report.h"

namespace profd::xray {

// What mapping lines of a result call the program and the image of functions it doesn't have; the
// daemon knows their paths.
inline constexpr std::string_view kProgramPath = "program";
inline constexpr std::string_view kUnknownPath = "unknown";

struct LiveResult {
  Report report;
  std::uint64_t functions = 0;  // that the program has
  std::uint64_t patched = 0;
  double ns_per_tick = 0;
  Profile exclusive{};
  Profile calls{};
  std::string unknown_image{};  // empty: none is needed
};

[[nodiscard]] std::string encode(const LiveResult& result);
// kMalformed for anything that encode() doesn't write.
[[nodiscard]] Result<LiveResult> decode_live_result(std::string_view bytes);

}  // namespace profd::xray
