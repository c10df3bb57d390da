// What the subcommands that show who used the CPU have in common.

#pragma once

#include <cstddef>
#include <string>

#include "ctl/client/client.h"
#include "formats/api/history_api.h"
#include "formats/base/result.h"

namespace profd {

// Lists end there unless --all or --limit is given: what is left fits on a screen.
inline constexpr std::size_t kShownRows = 20;

// "cc1plus x14 121 %", "backup.service 44.0 %"
[[nodiscard]] std::string group_text(const GroupShare& group);

// kNotFound, with the range that the history has: there is no window in the one that was asked for.
[[nodiscard]] Error no_windows_in(const TimeRange& range, Client& client);

// kNotFound: nothing that matched ran.
[[nodiscard]] Error nothing_matched(const std::string& hint);

}  // namespace profd
