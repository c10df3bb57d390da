#include "ctl/commands/history_answers.h"

#include <chrono>

#include "ctl/output/text.h"
#include "formats/base/errors.h"
#include "formats/base/time_text.h"

namespace profd {
namespace {

bool is_future(const TimeRange& range) {
  return std::chrono::milliseconds(range.since_ms) >
         std::chrono::system_clock::now().time_since_epoch();
}

}  // namespace

std::string group_text(const GroupShare& group) {
  const bool has_count = !group.is_unit && group.processes > 1;
  return group.name + (has_count ? " x" + std::to_string(group.processes) : "") + " " +
         cpu_text(group.cpu_percent);
}

Error no_windows_in(const TimeRange& range, Client& client) {
  std::string what = "no windows";
  if (range.since_ms != 0) what += " since " + text_of_ms(range.since_ms);
  if (range.until_ms != TimeRange::kEndMs) what += " until " + text_of_ms(range.until_ms);
  if (is_future(range)) what += " (that is in the future)";
  const auto status = client.status();
  if (!status || status->continuous.oldest.empty()) {
    return fail(ErrorCode::kNotFound, what, "'profctl history' lists the windows");
  }
  return fail(ErrorCode::kNotFound, what,
              "the history is from " + local_text(status->continuous.oldest) + " to " +
                  local_text(status->continuous.last_written));
}

Error explained_absence(const Error& error, const std::optional<TimeRange>& range, Client& client) {
  const bool is_explained = error.code == ErrorCode::kNotFound && range && is_future(*range);
  return is_explained ? no_windows_in(*range, client) : error;
}

std::string text_of_ms(std::uint64_t ms) {
  return local_time_text(WallTime(std::chrono::milliseconds(ms)));
}

Error nothing_matched(const std::string& hint) {
  return fail(ErrorCode::kNotFound, "no process matched", hint);
}

}  // namespace profd
