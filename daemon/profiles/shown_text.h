// The texts that programs choose (names of functions, files and processes) as profiles have them.

#pragma once

#include <cstdint>
#include <string_view>

#include "formats/base/utf8_text.h"
#include "formats/profile/pprof_profile.h"

namespace profd {

// Control characters become '?': a terminal would take them for commands.
inline std::uint32_t add_shown_text(PprofProfile& profile, std::string_view text) {
  return has_controls(text) ? profile.add_text(without_controls(text)) : profile.add_text(text);
}

}  // namespace profd
