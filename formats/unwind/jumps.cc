#include "formats/unwind/jumps.h"

#include <cstddef>
#include <cstring>

namespace profd {
namespace {

// The length of a jump, up to its distance; 0: none is here.
std::size_t bytes_before_distance(std::string_view code) {
  if (code[0] == '\xe9') return 1;
  const bool is_conditional = code.size() > 1 && code[0] == '\x0f' && (code[1] & '\xf0') == '\x80';
  return is_conditional ? 2 : 0;
}

}  // namespace

std::vector<CodeJump> find_jumps(std::string_view code) {
  std::vector<CodeJump> jumps;
  for (std::size_t at = 0; at < code.size(); ++at) {
    const std::size_t before = bytes_before_distance(code.substr(at));
    if (before == 0 || code.size() - at < before + sizeof(std::int32_t)) continue;
    std::int32_t distance = 0;
    std::memcpy(&distance, code.data() + at + before, sizeof distance);
    const auto behind = static_cast<std::int64_t>(at + before + sizeof distance);
    jumps.push_back({.at = at, .target = behind + distance});
  }
  return jumps;
}

}  // namespace profd
