#include "daemon/base/log.h"

#include <exception>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace profd::log {
namespace {

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kCritical:
      return spdlog::level::critical;
  }
  return spdlog::level::err;
}

}  // namespace

void set_up(const std::string& level, bool with_time) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("profd"));
  spdlog::set_pattern(with_time ? "%Y-%m-%dT%H:%M:%S%z %l %v" : "%l %v");
  set_level(level);
}

void set_level(const std::string& level) { spdlog::set_level(spdlog::level::from_str(level)); }

void write(Level level, fmt::string_view format, fmt::format_args args) {
  if (!spdlog::should_log(level_of(level))) return;
  try {
    spdlog::log(level_of(level), "{}", fmt::vformat(format, args));
  } catch (const std::exception&) {
    // Out of memory: the line is missing, and the caller goes on, as with spdlog's own functions.
  }
}

}  // namespace profd::log
