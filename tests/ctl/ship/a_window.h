// A window that a test makes: processes with samples of one frame each.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/profile/pprof_profile.h"

namespace profd::test {

class AWindow {
 public:
  explicit AWindow(std::int64_t time_ns = 0)
      : profile({{"samples", "count"}, {"cpu", "nanoseconds"}}) {
    profile.time_ns = time_ns;
    profile.period = 10;
  }

  // One sample of a stack of the function `name`, which lies in `file`.
  void add(std::int64_t pid, const std::string& comm, const std::string& unit,
           const std::string& name, std::int64_t samples, const std::string& file = "/bin/x") {
    const auto text = [this](const char* key, const std::string& value) {
      return PprofLabel{.key = profile.add_text(key), .text = profile.add_text(value)};
    };
    std::vector<PprofLabel> labels{
        text("comm", comm), text("unit", unit),  text("container", container),
        text("pod", pod),   text("user", "bob"), {.key = profile.add_text("pid"), .number = pid}};
    if (!thread.empty()) labels.push_back(text("thread", thread));
    const PprofLine line{.function = profile.add_function({.name = profile.add_text(name)})};
    const std::uint32_t mapping =
        profile.add_mapping({.limit = 4096, .file = profile.add_text(file)});
    const std::uint32_t location = profile.add_location({.mapping = mapping}, {&line, 1});
    profile.add_sample({.labels = profile.add_labels(std::move(labels)),
                        .stack = profile.add_stack({&location, 1})},
                       std::vector{samples, samples * 10});
  }

  PprofProfile profile;
  // Of samples that are added from now on.
  std::string container = "-";
  std::string pod = "-";
  std::string thread;
};

}  // namespace profd::test
