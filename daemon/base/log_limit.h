// Limits the lines that one cause may write to the log, since users can cause most of them: each
// line takes time and disk of the host.
//
// The cause of a line is its format string. Not thread safe.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace profd::log {

class LineLimit {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kMaxLines = 10;  // of one cause in one interval
  static constexpr std::chrono::seconds kInterval{1};
  // Causes are literals of the program, and it has fewer. Others share one count.
  static constexpr std::size_t kMaxCauses = 1024;

  // Whether the line is written; else it is counted.
  [[nodiscard]] bool allows(std::string_view cause, Clock::time_point now);

  struct LeftOut {
    std::string cause;
    std::uint64_t lines = 0;
  };
  // The lines that were left out in intervals that are over, once.
  [[nodiscard]] std::vector<LeftOut> take_left_out(Clock::time_point now);

 private:
  struct Lines {
    Clock::time_point since;
    std::size_t written = 0;
    std::uint64_t left_out = 0;
  };
  std::map<std::string, Lines, std::less<>> causes_;
};

}  // namespace profd::log
