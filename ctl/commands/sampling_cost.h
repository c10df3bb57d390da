// What a session will cost the host, said before it starts.

#pragma once

#include <cstdint>

#include "ctl/output/console.h"
#include "formats/api/start_request.h"

namespace profd {

// Frequencies above this get a warning.
inline constexpr std::uint64_t kCostlyFrequency = 10'000;

// On standard error; nothing for a usual frequency. Of time off the CPU of all threads of the host,
// how much that is, and what to do instead.
void warn_of_cost(const StartRequest& request, const Console& console);

// What perf's option -g is for. On standard error.
void say_that_stacks_are_always_on(const Console& console);

}  // namespace profd
