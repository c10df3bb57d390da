// A profile of a host that does not exist: recursion, inlined functions, kernel frames, several
// processes of some units. The same for the same seed.

#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "formats/profile/pprof_profile.h"

namespace profd::test {

class RandomProfile {
 public:
  explicit RandomProfile(std::uint32_t seed, std::size_t functions = 40)
      : random_(seed),
        functions_(functions),
        profile_({{"samples", "count"}, {"cpu", "nanoseconds"}}) {
    profile_.default_sample_type = "cpu";
    profile_.period_type = {"cpu", "nanoseconds"};
    profile_.period = kPeriodNs;
    profile_.duration_ns = 60'000'000'000;
    profile_.add_mapping({.file = profile_.add_text("[all processes of host]")});
    for (std::size_t i = 0; i < functions_ * 2; ++i) locations_.push_back(add_location(i));
  }

  static constexpr std::int64_t kPeriodNs = 10'101'010;

  void add(std::size_t stacks) {
    for (std::size_t i = 0; i < stacks; ++i) {
      std::vector<std::uint32_t> stack;
      const std::size_t depth = 1 + random_() % 24;
      while (stack.size() < depth) {
        stack.push_back(locations_[random_() % locations_.size()]);
        if (random_() % 4 == 0) stack.push_back(stack.back());  // recursion
      }
      const auto count = static_cast<std::int64_t>(1 + random_() % 9);
      const std::vector<std::int64_t> values{count, count * kPeriodNs};
      profile_.add_sample({.labels = add_labels(random_() % 6), .stack = profile_.add_stack(stack)},
                          values);
    }
  }

  [[nodiscard]] const PprofProfile& profile() const { return profile_; }

 private:
  std::uint32_t add_location(std::size_t number) {
    const std::size_t function = number % functions_;
    const bool is_kernel = function % 7 == 0;
    const std::uint32_t mapping = profile_.add_mapping(
        {.start = 0x1000,
         .limit = 0x900000,
         .file =
             profile_.add_text(is_kernel ? "[kernel.kallsyms]"
                                         : "/usr/lib/lib" + std::to_string(function % 5) + ".so"),
         .build_id = profile_.add_text(std::to_string(is_kernel ? 2000 : 1000 + function % 5))});
    std::vector<PprofLine> lines{line_of(function, number)};
    if (number % 3 == 0) lines.push_back(line_of((function * 5 + 1) % functions_, number));
    return profile_.add_location({.address = 0x1000 + number * 16, .mapping = mapping}, lines);
  }

  PprofLine line_of(std::size_t function, std::size_t number) {
    const std::string name = "ns::work_" + std::to_string(function);
    return {.function = profile_.add_function(
                {.name = profile_.add_text(name),
                 .system_name = profile_.add_text(name),
                 .file = profile_.add_text("/src/file" + std::to_string(function % 6) + ".cc")}),
            .line = static_cast<std::int64_t>(10 + number)};
  }

  std::uint32_t add_labels(std::size_t process) {
    const auto text = [this](std::string_view key, const std::string& value) {
      return PprofLabel{.key = profile_.add_text(key), .text = profile_.add_text(value)};
    };
    const auto pid = static_cast<std::int64_t>(100 + process);
    return profile_.add_labels(
        {{.key = profile_.add_text("pid"), .number = pid},
         text("comm", "program" + std::to_string(process)),
         text("unit", process == 5 ? "-" : "unit" + std::to_string(process % 3) + ".service"),
         text("container", "-"),
         text("user", process % 2 == 0 ? "root" : "www-data"),
         text("runtime", "-")});
  }

  std::mt19937 random_;
  std::size_t functions_;
  PprofProfile profile_;
  std::vector<std::uint32_t> locations_;
};

}  // namespace profd::test
