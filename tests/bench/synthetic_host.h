// Profiles of a host that does not exist, for benchmarks.

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/profile/pprof_profile.h"

namespace profd::bench {

inline constexpr std::int64_t kPeriodNs = 10101010;
inline constexpr std::size_t kFiles = 120;
inline constexpr std::uint32_t kNone = 0xffffffff;

// The stacks of a host, of which each window has some: 110 processes, 26 to 58 frames deep, over
// 3,900 functions whose names have 122 bytes in the mean. Stacks share their outer frames, as
// in a real program: each is an earlier one that was cut somewhere and then grew other frames.
class Host {
 public:
  struct Shape {
    std::size_t locations = 16000;
    std::size_t min_depth = 26;
    std::size_t depths = 33;  // from min_depth on
    std::size_t functions = 3900;
    std::size_t processes = 110;
    std::size_t new_processes = 0;  // so many of them are others in each window, of the same names
  };

  // Of all windows of a day, merged: most rare stacks have lost frames.
  static Shape day() { return {.locations = 16000, .min_depth = 8, .depths = 25}; }

  // A host that compiles, at 19 Hz, whose windows have 2,080 stacks: most processes live for
  // seconds.
  static Shape compiling() {
    return {.locations = 5943,
            .min_depth = 42,
            .depths = 33,
            .functions = 1767,
            .processes = 45,
            .new_processes = 35};
  }
  static constexpr std::size_t kCompilingStacks = 2080;

  // Of the file of an hour, in which rare stacks have lost frames; so many stacks are in it.
  static Shape hour() { return {.locations = 9600, .min_depth = 13, .depths = 27}; }
  static constexpr std::size_t kStacksOfHour = 23000;

  Host(std::size_t stacks, Shape shape) : shape_(shape) {
    for (std::size_t i = 0; i < shape_.functions; ++i) names_.push_back(name_of(i));
    for (std::size_t i = 0; i < stacks; ++i) stacks_.push_back(grown_stack(i));
  }

  // `count` of the stacks, each in the process that it belongs to.
  PprofProfile window(std::size_t count) {
    PprofProfile profile({{"samples", "count"}, {"cpu", "nanoseconds"}}, 1);
    profile.default_sample_type = "cpu";
    profile.period_type = {"cpu", "nanoseconds"};
    profile.period = kPeriodNs;
    profile.comments = {"profd 0.1.0"};
    profile.add_mapping({.file = profile.add_text("[all processes of host]")});
    std::vector<std::size_t> chosen(stacks_.size());
    std::iota(chosen.begin(), chosen.end(), 0);
    std::shuffle(chosen.begin(), chosen.end(), random_);
    chosen.resize(count);
    locations_.assign(shape_.locations, kNone);
    for (const std::size_t index : chosen) add(profile, stacks_[index]);
    ++windows_;
    return profile;
  }

 private:
  struct Stack {
    std::size_t process = 0;
    std::vector<std::uint64_t> root_first;  // numbers of locations
  };

  Stack grown_stack(std::size_t index) {
    Stack stack{.process = random_() % shape_.processes, .root_first = {}};
    if (index > 200) {
      stack = stacks_[random_() % stacks_.size()];
      const std::size_t kept = stack.root_first.size() * (50 + random_() % 50) / 100;
      stack.root_first.resize(kept);
    }
    const std::size_t depth = shape_.min_depth + random_() % shape_.depths;
    // A file's locations are the more often hit the lower their number.
    while (stack.root_first.size() < depth) {
      const double skewed = std::pow(std::uniform_real_distribution<>(0, 1)(random_), 2.0);
      stack.root_first.push_back(
          static_cast<std::uint64_t>(skewed * static_cast<double>(shape_.locations)));
    }
    return stack;
  }

  static std::string name_of(std::uint64_t function) {
    std::mt19937_64 letters(function);  // NOLINT: the same every time
    std::string name = "boost::asio::detail::";
    const std::size_t parts = 2 + letters() % 12;
    for (std::size_t i = 0; i < parts; ++i) {
      static constexpr std::array kWords = {"executor", "handler_",  "promise<", "basic_",
                                            "::impl",   "operator_", "any_io",   "composed"};
      name += kWords[letters() % kWords.size()] + std::to_string(letters() % 1000);
    }
    return name;
  }

  std::uint32_t location_of(PprofProfile& profile, std::uint64_t number) {
    if (locations_[number] != kNone) return locations_[number];
    const std::uint64_t file = number % kFiles;
    const std::uint32_t mapping = profile.add_mapping(
        {.start = 0x1000,
         .limit = 0x800000,
         .file_offset = 0x1000,
         .file = profile.add_text("/usr/lib/x86_64-linux-gnu/lib" + std::to_string(file) + ".so.1"),
         .build_id = profile.add_text(std::to_string(0x123456789 * (file + 1)))});
    const auto line = [&](std::uint64_t function) {
      const std::string& name = names_[function];
      return PprofLine{
          profile.add_function(
              {.name = profile.add_text(name),
               .system_name = profile.add_text("_ZN" + name),
               .file = profile.add_text("/src/" + std::to_string(function % 700) + ".cc")}),
          static_cast<std::int64_t>(number % 900)};
    };
    std::vector<PprofLine> lines = {line(number % names_.size())};
    if (number % 3 == 0) lines.push_back(line(number * 7 % names_.size()));
    return locations_[number] =
               profile.add_location({.address = 0x1000 + number * 37, .mapping = mapping}, lines);
  }

  [[nodiscard]] std::int64_t pid_of(std::size_t process) const {
    const std::size_t before = process < shape_.new_processes ? windows_ * shape_.processes : 0;
    return static_cast<std::int64_t>(1000 + before + process);
  }

  void add(PprofProfile& profile, const Stack& stack) {
    std::vector<std::uint32_t> leaf_first;
    for (auto at = stack.root_first.rbegin(); at != stack.root_first.rend(); ++at) {
      leaf_first.push_back(location_of(profile, *at));
    }
    const auto text = [&](std::string_view key, const std::string& value) {
      return PprofLabel{.key = profile.add_text(key), .text = profile.add_text(value)};
    };
    const std::string process = std::to_string(stack.process);
    std::vector<PprofLabel> labels = {
        {.key = profile.add_text("pid"), .number = pid_of(stack.process)},
        text("comm", "program" + process),
        text("unit", "service" + process + ".service"),
        text("container", "-"),
        text("pod", "-"),
        text("user", "root"),
        text("runtime", "native")};
    const std::int64_t samples = 1 + static_cast<std::int64_t>(random_() % 3);
    profile.add_sample({profile.add_labels(std::move(labels)), profile.add_stack(leaf_first)},
                       std::vector<std::int64_t>{samples, samples * kPeriodNs});
  }

  Shape shape_;
  std::mt19937_64 random_{7};  // NOLINT: the same every time
  std::vector<std::string> names_;
  std::vector<Stack> stacks_;
  std::vector<std::uint32_t> locations_;  // of the window in the making
  std::size_t windows_ = 0;               // made before it
};

}  // namespace profd::bench
