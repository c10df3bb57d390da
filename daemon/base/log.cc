#include "daemon/base/log.h"

#include <exception>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace profd::log {

static_assert(static_cast<int>(Level::kInfo) == SPDLOG_LEVEL_INFO &&
              static_cast<int>(Level::kCritical) == SPDLOG_LEVEL_CRITICAL);

void set_up(const std::string& level, bool with_time) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("profd"));
  spdlog::set_pattern(with_time ? "%Y-%m-%dT%H:%M:%S%z %l %v" : "%l %v");
  set_level(level);
}

void set_level(const std::string& level) { spdlog::set_level(spdlog::level::from_str(level)); }

void write(Level level, fmt::string_view format, fmt::format_args args) {
  const auto as_spdlog = static_cast<spdlog::level::level_enum>(level);
  if (!spdlog::should_log(as_spdlog)) return;
  try {
    spdlog::log(as_spdlog, "{}", fmt::vformat(format, args));
  } catch (const std::exception&) {
    // Out of memory: the line is missing, and the caller goes on, as with spdlog's own functions.
  }
}

}  // namespace profd::log
