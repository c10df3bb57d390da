// Which JVMs of the history are asked for the symbols of their JIT code, and when, so that windows
// have Java's names: `profctl ask-runtimes` (docs/jit.md).
//
// A process that only looks like a JVM can make each request last to its limits. So one turn asks
// few, the busiest ones first, and a process that refused or did not answer is left alone for a
// while.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/api/history_api.h"
#include "formats/base/result.h"

namespace profd {

struct AskedJvm {
  std::uint32_t pid = 0;
  std::string comm;
  Result<void> answer{};

  [[nodiscard]] bool answered() const { return answer.has_value(); }
};

class JvmAsker {
 public:
  using Clock = std::chrono::steady_clock;
  // ask_for_perf_map(), but in tests.
  using Ask = std::function<Result<void>(pid_t pid)>;

  static constexpr double kMinCpuPercent = 5;  // of one CPU, in the window
  static constexpr std::size_t kMaxOfTurn = 32;
  static constexpr std::chrono::minutes kPause{10};  // after a refusal

  explicit JvmAsker(Ask ask);

  // Asks the JVMs of the window that are due, one after the other, and ends early where
  // `is_stopped` says so. Returns those that were asked, by pid.
  [[nodiscard]] std::vector<AskedJvm> turn(const WindowShares& window, Clock::time_point now,
                                           const std::function<bool()>& is_stopped);

 private:
  using Process = std::pair<std::uint32_t, std::uint64_t>;  // the pid, and the start

  Ask ask_;
  std::map<Process, Clock::time_point> left_alone_until_;
};

// "2 JVMs have written their symbols: app 77, java 812; tomcat 9: the JVM does not answer". Safe
// for a terminal. Empty: none was asked.
[[nodiscard]] std::string text_of(const std::vector<AskedJvm>& asked);

}  // namespace profd
