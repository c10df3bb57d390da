#include "daemon/base/log.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "daemon/base/log_limit.h"

namespace profd::log {

static_assert(static_cast<int>(Level::kInfo) == SPDLOG_LEVEL_INFO &&
              static_cast<int>(Level::kCritical) == SPDLOG_LEVEL_CRITICAL);

namespace {

// A format string with "..." for each argument.
std::string shown(std::string_view format) {
  std::string text;
  while (!format.empty()) {
    const std::size_t begin = std::min(format.find('{'), format.size());
    text.append(format.substr(0, begin));
    format.remove_prefix(begin);
    if (format.empty()) break;
    text.append("...");
    format.remove_prefix(std::min(format.find('}'), format.size() - 1) + 1);
  }
  return text;
}

// Passes on the lines that are within the limit. write() gives the cause of a line as its function.
class LimitedSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit LimitedSink(spdlog::sink_ptr next) : next_(std::move(next)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& line) override {
    const auto now = LineLimit::Clock::now();
    for (const LineLimit::LeftOut& left_out : limit_.take_left_out(now)) {
      const std::string text =
          fmt::format("{} more lines were left out: {}", left_out.lines, shown(left_out.cause));
      next_->log({line.logger_name, spdlog::level::warn, text});
    }
    const char* const cause = line.source.funcname;
    if (cause == nullptr || limit_.allows(cause, now)) next_->log(line);
  }
  void flush_() override { next_->flush(); }
  void set_pattern_(const std::string& pattern) override { next_->set_pattern(pattern); }
  void set_formatter_(std::unique_ptr<spdlog::formatter> formatter) override {
    next_->set_formatter(std::move(formatter));
  }

  spdlog::sink_ptr next_;
  LineLimit limit_;
};

}  // namespace

void set_up(const std::string& level, bool with_time) {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "profd",
      std::make_shared<LimitedSink>(std::make_shared<spdlog::sinks::stderr_color_sink_mt>())));
  spdlog::set_pattern(with_time ? "%Y-%m-%dT%H:%M:%S%z %l %v" : "%l %v");
  set_level(level);
}

void set_level(const std::string& level) { spdlog::set_level(spdlog::level::from_str(level)); }

void write(Level level, fmt::string_view format, fmt::format_args args) {
  const auto as_spdlog = static_cast<spdlog::level::level_enum>(level);
  if (!spdlog::should_log(as_spdlog)) return;
  try {
    const std::string cause(format.data(), format.size());
    spdlog::log(spdlog::source_loc{"", 1, cause.c_str()}, as_spdlog, "{}",
                fmt::vformat(format, args));
  } catch (const std::exception&) {
    // Out of memory: the line is missing, and the caller goes on, as with spdlog's own functions.
  }
}

}  // namespace profd::log
