// The instrumented program of these tests (programs/calls.cc), started and driven.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "formats/base/unique_fd.h"

namespace profd::test {

class InstrumentedApp {
 public:
  // Runs `name` of the instrumented programs, looking for profd at `socket`. Killed and reaped on
  // destruction.
  InstrumentedApp(const std::filesystem::path& socket, const std::vector<std::string>& arguments,
                  const std::string& name = "xray_calls");
  InstrumentedApp(const InstrumentedApp&) = delete;
  InstrumentedApp& operator=(const InstrumentedApp&) = delete;
  ~InstrumentedApp();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] static std::filesystem::path program(const std::string& name = "xray_calls");

  // Its rounds begin.
  void go();
  // Its rounds are done; how many they were, of all threads together. With --forever it ends them.
  std::uint64_t rounds_done();
  // Its exit status, after the end of its input.
  int end();
  void signal(int number) const;
  int wait();  // status as waitpid gives it

  // The next line that it writes; empty at the end, or after 30 s.
  std::string line();

 private:
  pid_t pid_ = -1;
  UniqueFd input_;
  UniqueFd output_;
  std::string read_ahead_;
};

// Functions that each round of calls.cc calls, and how often.
struct CallsOfRound {
  const char* function;
  std::uint64_t calls;
};
inline constexpr CallsOfRound kCallsOfRound[] = {{"outer", 1}, {"middle", 2}, {"leaf", 8}};
// With --odd a round also has exceptions and jumps.
inline constexpr CallsOfRound kCallsOfOddRound[] = {{"outer", 1},   {"middle", 2},  {"leaf", 12},
                                                    {"catcher", 1}, {"thrower", 1}, {"jumper", 1},
                                                    {"landing", 1}};

}  // namespace profd::test
