// The daemon's log: one line per event on standard error, which journald reads.
//
// Only fmt's core is included: spdlog's own headers cost each source two seconds of compile time.

#pragma once

#include <string>

#include <fmt/core.h>

namespace profd::log {

enum class Level { kInfo = 2, kWarning, kError, kCritical };  // with the numbers of spdlog

// Before any other thread runs. `level` is one of spdlog's names; lines begin with the time unless
// the reader of the log adds it.
void set_up(const std::string& level, bool with_time);

// Any thread.
void set_level(const std::string& level);
void write(Level level, fmt::string_view format, fmt::format_args args);

template <class... Args>
void info(fmt::format_string<Args...> format, const Args&... args) {
  write(Level::kInfo, format, fmt::make_format_args(args...));
}

template <class... Args>
void warn(fmt::format_string<Args...> format, const Args&... args) {
  write(Level::kWarning, format, fmt::make_format_args(args...));
}

template <class... Args>
void error(fmt::format_string<Args...> format, const Args&... args) {
  write(Level::kError, format, fmt::make_format_args(args...));
}

template <class... Args>
void critical(fmt::format_string<Args...> format, const Args&... args) {
  write(Level::kCritical, format, fmt::make_format_args(args...));
}

}  // namespace profd::log
