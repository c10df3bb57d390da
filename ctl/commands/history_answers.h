// What the subcommands that show who used the CPU have in common.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ctl/client/client.h"
#include "formats/api/history_api.h"
#include "formats/api/start_request.h"
#include "formats/base/result.h"

namespace profd {

// "cc1plus x14 121 %", "backup.service 44.0 %"
[[nodiscard]] std::string group_text(const GroupShare& group);

// `event`, here and below, is that of HistoryRequest.
//
// kNotFound, with the range that the history has: there is no window in the one that was asked for.
[[nodiscard]] Error no_windows_in(const TimeRange& range, Client& client,
                                  const std::string& event = {});

// kNotFound: nothing that matched ran in the range.
[[nodiscard]] Error nothing_matched_in(const TimeRange& range);

// The error of an export. Where it says that nothing was found, it is no_windows_in() if the range
// has no windows, and has the range if they have nothing of a target. None: it was about no range.
[[nodiscard]] Error explained_absence(Error error, const std::optional<TimeRange>& range,
                                      const TargetRequest& target, Client& client,
                                      const std::string& event = {});

// no_windows_in(), or the error of the daemon that has none at all.
[[nodiscard]] Result<void> check_windows_in(const TimeRange& range, Client& client,
                                            const std::string& event = {});

// As parse_limit(), for -n where it is --limit: a user may mean --comm, which -n is elsewhere.
[[nodiscard]] Result<std::uint64_t> parse_limit_not_name(const std::string& text);

// The error. Where nothing was found and a name of the target is a number, as after "-n 20", its
// hint says what -n is.
[[nodiscard]] Error with_hint_on_names(Error error, const TargetRequest& target);

// Local time.
[[nodiscard]] std::string text_of_ms(std::uint64_t ms);

// kNotFound: nothing that matched ran.
[[nodiscard]] Error nothing_matched(const std::string& hint);

}  // namespace profd
