// Windows that a test makes instead of the daemon, in the form of daemon/history/window_file.h.

#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/history/window_file.h"
#include "formats/base/time_text.h"
#include "formats/proc/cgroup_path.h"
#include "formats/profile/pprof_profile.h"
#include "tests/formats/readers.h"

namespace profd::test {

// Names of functions, the leaf first; one that begins with "k:" is of the kernel.
struct NamedStack {
  std::vector<std::string> functions;
  std::uint64_t samples = 1;
};

struct NamedProcess {
  std::uint32_t pid = 7;
  std::string comm = "work";
  std::optional<ProcessOwner> owner{};
  std::optional<std::uint32_t> user = 0;
  std::string cgroup{};
  std::string file = "/usr/bin/work";
  std::vector<NamedStack> stacks{};
};

class NamedWindow {
 public:
  using Time = std::chrono::system_clock::time_point;
  static constexpr std::int64_t kPeriodNs = 52'632'000;

  explicit NamedWindow(Time start, std::chrono::seconds lasted = std::chrono::seconds(60),
                       std::int64_t period_ns = kPeriodNs)
      : profile_({{"samples", "count"}, {"cpu", "nanoseconds"}}), period_ns_(period_ns) {
    record_.start = start;
    record_.end = start + lasted;
    summary_.session = window_name(start);
    summary_.started = utc_text(start);
    summary_.seconds = static_cast<double>(lasted.count());
    summary_.event = "cpu";
    summary_.period_us = static_cast<std::uint64_t>(period_ns / 1000);
    profile_.period_type = {"cpu", "nanoseconds"};
    profile_.period = period_ns;
    profile_.time_ns = std::chrono::nanoseconds(start.time_since_epoch()).count();
    profile_.duration_ns = std::chrono::nanoseconds(lasted).count();
    (void)add_mapping("[all processes of host]");
  }

  // Of the time off the CPU: each sample of a stack is a block of `block`.
  static NamedWindow of_blocks(Time start, std::chrono::microseconds block) {
    NamedWindow window(start, std::chrono::seconds(60), block.count() * 1000);
    window.profile_ = PprofProfile({{"blocks", "count"}, {"off_cpu", "nanoseconds"}});
    window.profile_.period_type = {"off_cpu", "nanoseconds"};
    window.profile_.period = 1;
    window.profile_.time_ns = std::chrono::nanoseconds(start.time_since_epoch()).count();
    (void)window.add_mapping("[all processes of host]");
    window.summary_.event = "off-cpu";
    window.summary_.period_us = 1;
    window.summary_.period_unit = "microseconds";
    window.us_of_sample_ = static_cast<std::uint64_t>(block.count());
    return window;
  }

  NamedWindow& add(const NamedProcess& process) {
    const CgroupOwner owner = owner_of_cgroup(process.cgroup);
    ProcessLabels labels{.pid = process.pid, .comm = process.comm};
    if (owner.unit) labels.unit = *owner.unit;
    if (owner.container) labels.container = *owner.container;
    if (process.user) labels.user = "#" + std::to_string(*process.user);
    ProfileSummary summary;
    summary.pid = process.pid;
    summary.start_time_ns = 1000 + process.pid;
    summary.comm = process.comm;
    summary.unit = owner.unit;
    summary.container = owner.container;
    summary.stacks = process.stacks.size();
    for (const NamedStack& stack : process.stacks) {
      add_stack(process, labels, stack);
      summary.samples += stack.samples * us_of_sample_;
    }
    summary.user_samples = summary.complete_samples = summary.samples;
    summary_.ledger.written += summary.samples;
    summary_.ledger.taken += summary.samples;
    summary_.profiles.push_back(summary);
    if (process.user) record_.named_files.push_back("0011-22-u" + std::to_string(*process.user));
    record_.profiles.push_back({.owner = process.owner,
                                .user = process.user,
                                .cgroup = process.cgroup,
                                .labels = std::move(labels)});
    return *this;
  }

  NamedWindow& lose(const CountsByReason& lost) {
    summary_.ledger.lost = lost;
    summary_.ledger.taken += sum_of(lost);
    return *this;
  }

  [[nodiscard]] const std::string& name() const { return summary_.session; }
  [[nodiscard]] const SessionSummary& summary() const { return summary_; }
  [[nodiscard]] const WindowRecord& record() const { return record_; }
  [[nodiscard]] const PprofProfile& profile() const { return profile_; }
  [[nodiscard]] std::string bytes() const { return encode_window(profile_, summary_, record_); }

  // Returns the name.
  std::string write(const std::filesystem::path& windows_dir) const {
    std::filesystem::create_directories(windows_dir);
    write_window(windows_dir, name(), bytes()).value();
    return name();
  }

 private:
  std::uint32_t add_mapping(const std::string& file) {
    return profile_.add_mapping({.file = profile_.add_text(file)});
  }

  std::uint32_t add_frame(const NamedProcess& process, std::string_view function) {
    const bool is_kernel = function.starts_with("k:");
    if (is_kernel) function.remove_prefix(2);
    const std::uint32_t name = profile_.add_text(function);
    const PprofLine line{.function = profile_.add_function({.name = name, .system_name = name})};
    const std::uint32_t mapping = add_mapping(is_kernel ? "[kernel.kallsyms]" : process.file);
    return profile_.add_location({.address = 0x1000, .mapping = mapping}, {&line, 1});
  }

  void add_stack(const NamedProcess& process, const ProcessLabels& labels,
                 const NamedStack& stack) {
    const auto label = [this](std::string_view key, const std::string& value) {
      return PprofLabel{.key = profile_.add_text(key), .text = profile_.add_text(value)};
    };
    std::vector<std::uint32_t> frames;
    for (const std::string& function : stack.functions) {
      frames.push_back(add_frame(process, function));
    }
    const auto samples = static_cast<std::int64_t>(stack.samples);
    const std::uint32_t label_set =
        profile_.add_labels({{.key = profile_.add_text("pid"), .number = labels.pid},
                             label("comm", labels.comm),
                             label("unit", labels.unit),
                             label("container", labels.container),
                             label("pod", labels.pod),
                             label("user", labels.user),
                             label("runtime", labels.runtime)});
    profile_.add_sample({.labels = label_set, .stack = profile_.add_stack(frames)},
                        std::array{samples, samples * period_ns_},
                        summary_.event == "off-cpu" ? period_ns_ : 0);
  }

  PprofProfile profile_;
  std::int64_t period_ns_;
  std::uint64_t us_of_sample_ = 1;  // as session.json counts: of blocks, microseconds
  SessionSummary summary_;
  WindowRecord record_;
};

}  // namespace profd::test
