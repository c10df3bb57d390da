#include "ctl/sources/samples_wire.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectors/sandbox/wire.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

struct WireRow {
  std::vector<std::uint32_t> stack;  // locations, the leaf first
  std::uint32_t labels = 0;
  std::int64_t samples = 0;
  std::int64_t cpu_ns = 0;
  std::int64_t longest_ns = 0;
};

struct WireSamples {
  std::string event;
  bool has_cpu_time = false;
  TimeKind time_kind = TimeKind::kCpu;
  bool has_counts = true;
  std::int64_t duration_ns = 0;
  std::vector<std::string> texts;
  std::vector<SampledFunction> functions;
  std::vector<std::vector<SampledFrame>> locations;
  std::vector<SampleLabels> labels;
  std::vector<WireRow> rows;
  std::int64_t time_ns = 0;
  std::string times;                   // encoded; empty: none
  std::vector<SampleLosses> losses{};  // one, or none
};

bool are_valid(const WireSamples& wire) {
  const auto is_text = [&](std::uint32_t text) { return text < wire.texts.size(); };
  const auto is_function = [&](const SampledFunction& one) {
    return is_text(one.name) && is_text(one.file) && is_text(one.object) &&
           static_cast<std::size_t>(one.kind) < kFrameKinds;
  };
  const auto are_frames = [&](const std::vector<SampledFrame>& frames) {
    return std::ranges::all_of(
        frames, [&](const SampledFrame& frame) { return frame.function < wire.functions.size(); });
  };
  const auto is_label_set = [&](const SampleLabels& set) {
    return is_text(set.comm) && is_text(set.unit) && is_text(set.container) && is_text(set.user) &&
           is_text(set.runtime) && is_text(set.thread) && is_text(set.state) && is_text(set.wait) &&
           is_text(set.ongoing);
  };
  const auto is_row = [&](const WireRow& row) {
    return row.labels < wire.labels.size() && row.samples >= 0 && row.cpu_ns >= 0 &&
           row.longest_ns >= 0 && std::ranges::all_of(row.stack, [&](std::uint32_t location) {
             return location < wire.locations.size();
           });
  };
  return wire.duration_ns >= 0 && wire.time_ns >= 0 && wire.losses.size() <= 1 &&
         wire.time_kind <= TimeKind::kWall && std::ranges::all_of(wire.functions, is_function) &&
         std::ranges::all_of(wire.locations, are_frames) &&
         std::ranges::all_of(wire.labels, is_label_set) && std::ranges::all_of(wire.rows, is_row);
}

// Equal entries become one, so numbers change.
Samples samples_of(const WireSamples& wire) {
  Samples samples;
  samples.event = wire.event;
  samples.has_cpu_time = wire.has_cpu_time;
  samples.time_kind = wire.time_kind;
  samples.has_counts = wire.has_counts;
  samples.duration_ns = wire.duration_ns;
  samples.time_ns = wire.time_ns;
  if (!wire.losses.empty()) samples.losses = wire.losses.front();
  std::vector<std::uint32_t> texts;
  for (const std::string& text : wire.texts) texts.push_back(samples.add_text(text));
  std::vector<std::uint32_t> functions;
  for (const SampledFunction& one : wire.functions) {
    functions.push_back(samples.add_function({.name = texts[one.name],
                                              .file = texts[one.file],
                                              .object = texts[one.object],
                                              .kind = one.kind}));
  }
  for (std::vector<SampledFrame> frames : wire.locations) {
    for (SampledFrame& frame : frames) frame.function = functions[frame.function];
    (void)samples.add_location(frames);
  }
  std::vector<std::uint32_t> labels;
  for (SampleLabels set : wire.labels) {
    for (std::uint32_t* text : {&set.comm, &set.unit, &set.container, &set.user, &set.runtime,
                                &set.thread, &set.state, &set.wait, &set.ongoing}) {
      *text = texts[*text];
    }
    labels.push_back(samples.add_labels(set));
  }
  samples.reserve(wire.rows.size());
  for (const WireRow& row : wire.rows) {
    samples.add(row.stack, labels[row.labels],
                {.samples = row.samples, .cpu_ns = row.cpu_ns, .longest_ns = row.longest_ns});
  }
  return samples;
}

}  // namespace

std::string encode_samples(const Samples& samples) {
  WireSamples wire{.event = samples.event,
                   .has_cpu_time = samples.has_cpu_time,
                   .time_kind = samples.time_kind,
                   .has_counts = samples.has_counts,
                   .duration_ns = samples.duration_ns,
                   .texts = {},
                   .functions = {samples.functions().begin(), samples.functions().end()},
                   .locations = {},
                   .labels = {samples.labels().begin(), samples.labels().end()},
                   .rows = {},
                   .times = {}};
  for (std::uint32_t i = 0; i < samples.text_count(); ++i) {
    wire.texts.emplace_back(samples.text(i));
  }
  for (std::uint32_t i = 0; i < samples.location_count(); ++i) {
    auto& frames = wire.locations.emplace_back();
    for (const std::uint32_t frame : samples.frames_of_location(i)) {
      frames.push_back(samples.frames()[frame]);
    }
  }
  std::vector<std::uint32_t> stack;
  for (const Samples::Row& row : samples.rows()) {
    samples.read_locations(row, stack);
    wire.rows.push_back({.stack = stack,
                         .labels = row.labels,
                         .samples = row.value.samples,
                         .cpu_ns = row.value.cpu_ns,
                         .longest_ns = row.value.longest_ns});
  }
  wire.time_ns = samples.time_ns;
  if (samples.times()) wire.times = encode_sample_times(*samples.times());
  if (samples.losses) wire.losses.push_back(*samples.losses);
  return sandbox::encode(wire);
}

Result<Samples> decode_samples(std::string_view bytes) {
  const auto wire = sandbox::decode<WireSamples>(bytes);
  if (!wire) return wire.error();
  const auto is_malformed = malformed("the answer of the sandboxed reader is malformed");
  if (!are_valid(*wire)) return is_malformed;
  Samples samples = samples_of(*wire);
  if (wire->times.empty()) return samples;
  auto times = decode_sample_times(wire->times);
  if (!times || !samples.set_times(std::move(*times))) return is_malformed;
  return samples;
}

}  // namespace profd
