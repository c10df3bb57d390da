#include "ctl/views/samples_pprof.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace profd {
namespace {

class PprofExport {
 public:
  explicit PprofExport(const Samples& from) : from_(from), to_(types_of(from)) {
    to_.default_sample_type = from.has_cpu_time ? "cpu" : "samples";
    to_.period_type = {from.event, from.has_cpu_time ? "nanoseconds" : "count"};
    to_.period = period();
    to_.duration_ns = from.duration_ns;
  }

  PprofProfile make() {
    for (std::uint32_t i = 0; i < from_.location_count(); ++i) add_location(i);
    std::vector<std::uint32_t> labels;
    for (const SampleLabels& set : from_.labels()) labels.push_back(add_labels(set));
    std::vector<std::uint32_t> stack;
    for (const Samples::Row& row : from_.rows()) {
      from_.read_locations(row, stack);
      for (std::uint32_t& location : stack) location = locations_[location];
      std::vector<std::int64_t> values{row.value.samples};
      if (from_.has_cpu_time) values.push_back(row.value.cpu_ns);
      to_.add_sample({.labels = labels[row.labels], .stack = to_.add_stack(stack)}, values);
    }
    return std::move(to_);
  }

 private:
  static std::vector<PprofValueType> types_of(const Samples& from) {
    std::vector<PprofValueType> types{{"samples", "count"}};
    if (from.has_cpu_time) types.push_back({"cpu", "nanoseconds"});
    return types;
  }

  // Of one sample, where all have the same.
  [[nodiscard]] std::int64_t period() const {
    const SampleValue all = from_.sum();
    if (!from_.has_cpu_time || all.samples == 0) return 1;
    return std::max<std::int64_t>(all.cpu_ns / all.samples, 1);
  }

  std::uint32_t text(std::uint32_t index) { return to_.add_text(from_.text(index)); }

  void add_location(std::uint32_t number) {
    std::vector<PprofLine> lines;
    PprofLocation location;
    for (const std::uint32_t frame : from_.frames_of_location(number)) {
      const SampledFrame& of = from_.frames()[frame];
      const SampledFunction& function = from_.functions()[of.function];
      const std::uint32_t name = text(function.name);
      lines.push_back({.function = to_.add_function(
                           {.name = name, .system_name = name, .file = text(function.file)}),
                       .line = of.line});
      location.mapping = mapping_of(function);
    }
    locations_.push_back(to_.add_location(location, lines));
  }

  // A reader knows the kind of code by the name of the file.
  std::uint32_t mapping_of(const SampledFunction& function) {
    std::string_view file = from_.text(function.object);
    if (file.empty() && function.kind == FrameKind::kKernel) file = "[kernel.kallsyms]";
    if (file.empty() && function.kind == FrameKind::kRuntime) file = "[jit]";
    if (file.empty()) return PprofLocation::kNoMapping;
    return to_.add_mapping({.file = to_.add_text(file)});
  }

  std::uint32_t add_labels(const SampleLabels& set) {
    std::vector<PprofLabel> labels;
    const auto add_number = [&](std::string_view key, std::uint32_t number) {
      if (number != 0) labels.push_back({.key = to_.add_text(key), .number = number});
    };
    const auto add_name = [&](std::string_view key, std::uint32_t name) {
      if (name != 0) labels.push_back({.key = to_.add_text(key), .text = text(name)});
    };
    add_number("pid", set.pid);
    add_number("tid", set.tid);
    add_name("comm", set.comm);
    add_name("unit", set.unit);
    add_name("container", set.container);
    add_name("user", set.user);
    add_name("runtime", set.runtime);
    add_name("thread", set.thread);
    return to_.add_labels(std::move(labels));
  }

  const Samples& from_;
  PprofProfile to_;
  std::vector<std::uint32_t> locations_;
};

}  // namespace

PprofProfile pprof_of_samples(const Samples& samples) { return PprofExport(samples).make(); }

void add_samples(const Samples& from, Samples& to) {
  to.has_cpu_time = to.has_cpu_time && from.has_cpu_time;
  to.duration_ns = sum_within_limits(to.duration_ns, from.duration_ns);
  const auto text = [&](std::uint32_t index) { return to.add_text(from.text(index)); };
  std::vector<std::uint32_t> functions;
  for (const SampledFunction& one : from.functions()) {
    functions.push_back(to.add_function({.name = text(one.name),
                                         .file = text(one.file),
                                         .object = text(one.object),
                                         .kind = one.kind}));
  }
  std::vector<std::uint32_t> locations;
  for (std::uint32_t i = 0; i < from.location_count(); ++i) {
    std::vector<SampledFrame> frames;
    for (const std::uint32_t frame : from.frames_of_location(i)) {
      const SampledFrame& one = from.frames()[frame];
      frames.push_back({.function = functions[one.function], .line = one.line});
    }
    locations.push_back(to.add_location(frames));
  }
  std::vector<std::uint32_t> labels;
  for (const SampleLabels& set : from.labels()) {
    labels.push_back(to.add_labels({.pid = set.pid,
                                    .tid = set.tid,
                                    .comm = text(set.comm),
                                    .unit = text(set.unit),
                                    .container = text(set.container),
                                    .user = text(set.user),
                                    .runtime = text(set.runtime),
                                    .thread = text(set.thread)}));
  }
  to.reserve(from.rows().size());
  std::vector<std::uint32_t> stack;
  for (const Samples::Row& row : from.rows()) {
    from.read_locations(row, stack);
    for (std::uint32_t& location : stack) location = locations[location];
    to.add(stack, labels[row.labels], row.value);
  }
}

}  // namespace profd
