// A profile of blocks as the daemon writes it: times and numbers of blocks that a test chooses.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/profile/pprof_profile.h"

namespace profd::test {

inline constexpr std::int64_t kMs = 1'000'000;
inline constexpr std::int64_t kSecond = 1000 * kMs;

struct BlockLabels {
  std::string state = "S";
  std::string wait = "-";
  bool is_ongoing = false;
  std::uint32_t pid = 7;
  std::string thread{};
};

class BlockProfile {
 public:
  // `type`: off_cpu, runnable or wall.
  explicit BlockProfile(const std::string& type = "off_cpu",
                        std::int64_t duration_ns = 60 * kSecond)
      : profile_({{type == "wall" ? "samples" : "blocks", "count"}, {type, "nanoseconds"}}) {
    profile_.default_sample_type = type;
    profile_.period_type = {type, "nanoseconds"};
    profile_.period = 1;
    profile_.duration_ns = duration_ns;
    profile_.add_mapping({.file = profile_.add_text("[all processes of host]")});
  }

  // `stack`: names, the leaf first. Those in "k:NAME" are of the kernel; those in brackets have no
  // code, and a mapping of their name, as the daemon writes them. `longest_ns`: 0 is not written.
  void add(const std::vector<std::string>& stack, const BlockLabels& labels, std::int64_t blocks,
           std::int64_t ns, std::int64_t longest_ns = 0) {
    std::vector<std::uint32_t> locations;
    locations.reserve(stack.size());
    for (const std::string& name : stack) locations.push_back(add_frame(name));
    const std::vector<std::int64_t> values{blocks, ns};
    profile_.add_sample({.labels = add_labels(labels), .stack = profile_.add_stack(locations)},
                        values, longest_ns);
  }

  [[nodiscard]] const PprofProfile& profile() const { return profile_; }
  void set_own_data(std::string own_data) { profile_.own_data = std::move(own_data); }

 private:
  std::uint32_t add_frame(const std::string& name) {
    const bool is_kernel = name.starts_with("k:");
    const std::uint32_t text = profile_.add_text(is_kernel ? name.substr(2) : name);
    const PprofLine line{.function = profile_.add_function({.name = text, .system_name = text})};
    PprofLocation location;
    if (name.starts_with('[')) {
      location.mapping = profile_.add_mapping({.file = text});
    } else {
      location.address = 0x1000 + 16 * std::uint64_t{text};
      location.mapping = profile_.add_mapping(
          {.start = 0x1000,
           .limit = 0x900000,
           .file = profile_.add_text(is_kernel ? "[kernel.kallsyms]" : "/bin/waits")});
    }
    return profile_.add_location(location, {&line, 1});
  }

  std::uint32_t add_labels(const BlockLabels& of) {
    const auto text = [this](std::string_view key, const std::string& value) {
      return PprofLabel{.key = profile_.add_text(key), .text = profile_.add_text(value)};
    };
    std::vector<PprofLabel> labels{{.key = profile_.add_text("pid"), .number = of.pid},
                                   text("comm", "waits"),
                                   text("state", of.state),
                                   text("wait", of.wait)};
    if (!of.thread.empty()) labels.push_back(text("thread", of.thread));
    if (of.is_ongoing) labels.push_back(text("ongoing", "yes"));
    return profile_.add_labels(std::move(labels));
  }

  PprofProfile profile_;
};

}  // namespace profd::test
