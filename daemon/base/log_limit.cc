#include "daemon/base/log_limit.h"

#include <utility>

namespace profd::log {

bool LineLimit::allows(std::string_view cause, Clock::time_point now) {
  auto known = causes_.find(cause);
  if (known == causes_.end()) {
    const std::string_view name = causes_.size() < kMaxCauses ? cause : "others";
    known = causes_.try_emplace(std::string(name), Lines{.since = now}).first;
  }
  Lines& lines = known->second;
  if (now - lines.since >= kInterval) {
    lines.since = now;
    lines.written = 0;
  }
  if (lines.written < kMaxLines) {
    ++lines.written;
    return true;
  }
  ++lines.left_out;
  return false;
}

std::vector<LineLimit::LeftOut> LineLimit::take_left_out(Clock::time_point now) {
  std::vector<LeftOut> all;
  for (auto& [cause, lines] : causes_) {
    if (lines.left_out == 0 || now - lines.since < kInterval) continue;
    all.push_back({.cause = cause, .lines = std::exchange(lines.left_out, 0)});
  }
  return all;
}

}  // namespace profd::log
