#include "ctl/views/samples_pprof.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/api/session_summary.h"
#include "formats/base/time_text.h"
#include "formats/profile/block_names.h"

namespace profd {
namespace {

constexpr std::int64_t kNsOfTick = std::int64_t{kTickMs} * 1'000'000;

// One profile stands for those of all processes. None of their names is known.
ProfileSummary summary_of_processes(const SampleLosses& losses) {
  ProfileSummary all;
  all.comm = "[all processes]";
  all.samples = losses.written;
  all.user_samples = losses.user_samples;
  all.incomplete = by_reason(losses.incomplete);
  all.complete_samples = all.user_samples - std::min(all.user_samples, sum_of(all.incomplete));
  return all;
}

// What a profile of the daemon has in the same place: a session.json.
std::string session_json_of(const Samples& from, const SampleLosses& losses,
                            std::int64_t period_ns) {
  constexpr double kNsOfSecond = 1e9;
  constexpr std::int64_t kNsOfUs = 1000;
  SessionSummary summary;
  if (from.time_ns > 0) {
    summary.started =
        utc_text(std::chrono::system_clock::time_point(std::chrono::nanoseconds(from.time_ns)));
  }
  summary.seconds = static_cast<double>(from.duration_ns) / kNsOfSecond;
  summary.event = from.event;
  const bool has_period = from.has_cpu_time && !is_of_blocks(from.time_kind);
  summary.period_us = static_cast<std::uint64_t>(has_period ? period_ns / kNsOfUs : 1);
  if (!from.has_cpu_time) summary.period_unit = from.event;
  summary.profiles.push_back(summary_of_processes(losses));
  summary.ledger.written = losses.written;
  summary.ledger.lost = by_reason(losses.lost);
  summary.ledger.taken = losses.written + sum_of(summary.ledger.lost);
  return to_json(summary);
}

class PprofExport {
 public:
  explicit PprofExport(const Samples& from) : from_(from), to_(types_of(from)) {
    to_.default_sample_type =
        from.has_cpu_time ? std::string(kind_names(from.time_kind).type) : "samples";
    to_.period_type = {period_type_of(from), from.has_cpu_time ? "nanoseconds" : "count"};
    to_.period = period();
    to_.time_ns = from.time_ns;
    to_.duration_ns = from.duration_ns;
    if (from.losses) to_.own_data = session_json_of(from, *from.losses, to_.period);
  }

  PprofProfile make() {
    for (std::uint32_t i = 0; i < from_.location_count(); ++i) add_location(i);
    std::vector<std::uint32_t> labels;
    for (const SampleLabels& set : from_.labels()) labels.push_back(add_labels(set));
    std::vector<std::uint32_t> places;  // by row
    places.reserve(from_.rows().size());
    std::vector<std::uint32_t> stack;
    for (const Samples::Row& row : from_.rows()) {
      from_.read_locations(row, stack);
      for (std::uint32_t& location : stack) location = locations_[location];
      std::vector<std::int64_t> values;
      if (from_.has_counts) values.push_back(row.value.samples);
      if (from_.has_cpu_time) values.push_back(row.value.cpu_ns);
      places.push_back(to_.add_sample({.labels = labels[row.labels], .stack = to_.add_stack(stack)},
                                      values, row.value.longest_ns));
    }
    add_times(places);
    return std::move(to_);
  }

 private:
  static std::vector<PprofValueType> types_of(const Samples& from) {
    const TimeKindNames& names = kind_names(from.time_kind);
    std::vector<PprofValueType> types;
    if (from.has_counts) types.push_back({names.count_type, "count"});
    if (from.has_cpu_time) types.push_back({std::string(names.type), "nanoseconds"});
    return types;
  }

  static std::string period_type_of(const Samples& from) {
    if (!is_of_blocks(from.time_kind)) return from.event;
    return std::string(kind_names(from.time_kind).type);
  }

  // Of one sample, where all have the same. Blocks have times of their own.
  [[nodiscard]] std::int64_t period() const {
    const SampleValue all = from_.sum();
    if (!from_.has_cpu_time || all.samples == 0 || is_of_blocks(from_.time_kind)) return 1;
    return std::max<std::int64_t>(all.cpu_ns / all.samples, 1);
  }

  // Equal rows have become one sample.
  void add_times(const std::vector<std::uint32_t>& places) {
    if (!from_.times()) return;
    SampleTimes times = *from_.times();
    for (SampleTime& time : times.entries) time.sample = places[time.sample];
    normalize(times);
    to_.times = std::move(times);
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
    if (file.empty() && function.kind == FrameKind::kInterpreted) file = "[interpreted]";
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
    add_name(kStateLabel, set.state);
    add_name(kWaitLabel, set.wait);
    add_name(kOngoingLabel, set.ongoing);
    return to_.add_labels(std::move(labels));
  }

  const Samples& from_;
  PprofProfile to_;
  std::vector<std::uint32_t> locations_;
};

// `start_ns` is not after the start of the samples. `first_row`: the row that is row 0 in `from`.
void append_times(const Samples& from, std::int64_t start_ns, std::size_t first_row,
                  SampleTimes& to) {
  const std::int64_t ticks = (from.time_ns - start_ns) / kNsOfTick;
  const auto later = static_cast<std::uint32_t>(std::min<std::int64_t>(ticks, kMaxTicks));
  const SampleTimes& times = *from.times();
  // Times that are complete stay so.
  const bool is_complete = times.until == kMaxTicks;
  to.until = std::min(to.until, is_complete ? kMaxTicks : times.until + later);
  to.entries.reserve(to.entries.size() + times.entries.size());
  for (const SampleTime& time : times.entries) {
    to.entries.push_back({.sample = static_cast<std::uint32_t>(time.sample + first_row),
                          .tick = time.tick + later,
                          .count = time.count});
  }
}

// None: those of one are not known.
std::optional<SampleTimes> times_of_both(const Samples& first, const Samples& second) {
  if (!first.times() || !second.times()) return std::nullopt;
  if (first.time_ns == 0 || second.time_ns == 0) return std::nullopt;
  const std::int64_t start_ns = std::min(first.time_ns, second.time_ns);
  SampleTimes times;
  append_times(first, start_ns, 0, times);
  append_times(second, start_ns, first.rows().size(), times);
  normalize(times);
  return times;
}

void add_recording(const Samples& from, Samples& to) {
  to.has_cpu_time = to.has_cpu_time && from.has_cpu_time;
  to.has_counts = to.has_counts && from.has_counts;
  to.duration_ns = sum_within_limits(to.duration_ns, from.duration_ns);
  if (to.time_ns == 0 || (from.time_ns != 0 && from.time_ns < to.time_ns)) {
    to.time_ns = from.time_ns;
  }
  if (to.losses && from.losses) {
    to.losses->add(*from.losses);
  } else if (from.losses) {
    to.losses = from.losses;
  }
}

void add_rows(const Samples& from, std::span<const std::uint32_t> locations,
              std::span<const std::uint32_t> labels, Samples& to) {
  to.reserve(from.rows().size());
  std::vector<std::uint32_t> stack;
  for (const Samples::Row& row : from.rows()) {
    from.read_locations(row, stack);
    for (std::uint32_t& location : stack) location = locations[location];
    to.add(stack, labels[row.labels], row.value);
  }
}

}  // namespace

PprofProfile pprof_of_samples(const Samples& samples) { return PprofExport(samples).make(); }

void add_samples(const Samples& from, Samples& to) {
  std::optional<SampleTimes> times = times_of_both(to, from);
  add_recording(from, to);
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
                                    .thread = text(set.thread),
                                    .state = text(set.state),
                                    .wait = text(set.wait),
                                    .ongoing = text(set.ongoing)}));
  }
  add_rows(from, locations, labels, to);
  if (times) {
    (void)to.set_times(std::move(*times));
  } else {
    to.forget_times();
  }
}

}  // namespace profd
