// Makes room in a JitCodeIndex without ever making a name wrong.
//
// A generation that is left out must not uncover an older one: that would be taken for what lived
// there. What had ended by some time can go, all of it, if the index says nothing of the time
// before but where one generation lived through it. Of what was still alive, that can go which
// covers nothing older that stays.

#pragma once

#include <cstdint>
#include <vector>

#include "formats/jit/generations.h"

namespace profd {

struct JitRemembered {
  std::vector<JitLayerRow> rows;  // the oldest first
  std::uint64_t complete_since_ns = 0;
};

// `rows`: all, the oldest first. At least a quarter goes: of the older half what had ended by the
// half's end; if those are too few, the oldest that were not asked for lately; if too few still,
// the older half.
[[nodiscard]] JitRemembered forget_oldest(const std::vector<JitLayerRow>& rows);

}  // namespace profd
