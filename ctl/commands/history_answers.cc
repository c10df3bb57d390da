#include "ctl/commands/history_answers.h"

#include <algorithm>
#include <chrono>

#include "ctl/options/values.h"
#include "ctl/output/text.h"
#include "formats/base/errors.h"
#include "formats/base/time_text.h"

namespace profd {
namespace {

bool is_future(const TimeRange& range) {
  return std::chrono::milliseconds(range.since_ms) >
         std::chrono::system_clock::now().time_since_epoch();
}

// A process may have such a name, but a number of rows is more likely.
bool has_digits_alone(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

// " since 2026-11-20 14:05:00 until 2026-11-20 14:06:00", without an end that is open.
std::string text_of_range(const TimeRange& range) {
  std::string text;
  if (range.since_ms != 0) text += " since " + text_of_ms(range.since_ms);
  if (range.until_ms != TimeRange::kEndMs) text += " until " + text_of_ms(range.until_ms);
  return text;
}

Result<bool> has_windows_in(const TimeRange& range, Client& client, const std::string& event) {
  const auto newest = client.history({.range = range, .target = {}, .limit = 1, .event = event});
  if (!newest) return newest.error();
  return !newest->windows.empty() || newest->left_out != 0;
}

}  // namespace

std::string group_text(const GroupShare& group) {
  const bool has_count = !group.is_unit && group.processes > 1;
  return group.name + (has_count ? " x" + std::to_string(group.processes) : "") + " " +
         cpu_text(group.cpu_percent);
}

Error no_windows_in(const TimeRange& range, Client& client, const std::string& event) {
  std::string what = "no windows" + text_of_range(range);
  if (is_future(range)) what += " (that is in the future)";
  const auto status = client.status();
  StatusInfo::Continuous windows;
  if (status && !asks_for_blocks(event)) windows = status->continuous;
  if (status && asks_for_blocks(event)) {
    windows = status->continuous_off_cpu.value_or(StatusInfo::Continuous());
  }
  if (windows.oldest.empty()) {
    return fail(ErrorCode::kNotFound, what, "'profctl history' lists the windows");
  }
  return fail(ErrorCode::kNotFound, what,
              "the history is from " + local_text(windows.oldest) + " to " +
                  local_text(windows.last_written));
}

Error nothing_matched_in(const TimeRange& range) {
  const std::string when = text_of_range(range);
  Error error = nothing_matched(
      "'profctl ps --all' lists who ran in the last window only, and with --since and --until, or "
      "--last, in another time");
  error.message += when.empty() ? " in the whole history" : when;
  return error;
}

Error explained_absence(Error error, const std::optional<TimeRange>& range,
                        const TargetRequest& target, Client& client, const std::string& event) {
  if (error.code != ErrorCode::kNotFound || !range) return error;
  const auto has_windows = has_windows_in(*range, client, event);
  if (has_windows ? !*has_windows : is_future(*range)) return no_windows_in(*range, client, event);
  if (has_windows && !target.empty() && !target.all) error.message += text_of_range(*range);
  return error;
}

Result<void> check_windows_in(const TimeRange& range, Client& client, const std::string& event) {
  const auto has_windows = has_windows_in(range, client, event);
  if (!has_windows) return has_windows.error();
  if (!*has_windows) return no_windows_in(range, client, event);
  return {};
}

Result<std::uint64_t> parse_limit_not_name(const std::string& text) {
  auto limit = parse_limit(text);
  if (limit) return limit;
  Error error = limit.error();
  error.hint = "-n is --limit here, for example -n 10; to match by name use --comm";
  return error;
}

Error with_hint_on_names(Error error, const TargetRequest& target) {
  if (error.code != ErrorCode::kNotFound) return error;
  const auto number = std::ranges::find_if(target.comms, has_digits_alone);
  if (number == target.comms.end()) return error;
  const std::string hint = "-n is --comm here, the name of a process; report and diff show " +
                           *number + " rows with --limit " + *number;
  error.hint = error.hint.empty() ? hint : hint + "; " + error.hint;
  return error;
}

std::string text_of_ms(std::uint64_t ms) {
  return local_time_text(WallTime(std::chrono::milliseconds(ms)));
}

Error nothing_matched(const std::string& hint) {
  return fail(ErrorCode::kNotFound, "no process matched", hint);
}

}  // namespace profd
