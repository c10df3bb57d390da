// The direct jumps of x86-64 code with a distance of 4 bytes.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace profd {

// Both from the start of the code.
struct CodeJump {
  std::uint64_t at = 0;
  std::int64_t target = 0;  // may be outside
};

// All bytes are looked at, as if an instruction began at each; what only seems to be a jump leads
// to some address within 4 GiB.
[[nodiscard]] std::vector<CodeJump> find_jumps(std::string_view code);

}  // namespace profd
