#include "collectors/sampling/event_spec.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>

#include "formats/api/event_list.h"
#include "formats/base/nearest_name.h"
#include "formats/profile/block_names.h"

namespace profd {
namespace {

constexpr std::uint64_t kDefaultFrequencyHz = 99;  // not 100: no lockstep with timers
constexpr std::uint64_t kKernelDefaultMaxSampleRateHz = 100'000;
constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;
constexpr std::uint64_t kBlockPeriodNs = 1000;

Error unknown_event(std::string_view name) {
  const std::vector<std::string_view> known = event_names();
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string hint = did_you_mean(nearest_names(lower, known));
  if (hint.empty()) hint = "profctl events lists the names";
  return fail(ErrorCode::kInvalidArgument,
              "unknown event '" + std::string(name.substr(0, 64)) + "'", hint);
}

Error rate_over_limit(const std::string& asked) {
  return fail(ErrorCode::kInvalidArgument,
              asked + " is over the kernel's limit of " + std::to_string(max_sample_rate_hz()) +
                  " samples a second",
              "sysctl kernel.perf_event_max_sample_rate sets the limit");
}

Result<void> set_rate(EventSpec& spec, std::uint64_t frequency_hz, std::uint64_t period) {
  if (frequency_hz != 0 && period != 0) {
    return fail(ErrorCode::kInvalidArgument, "both a frequency and a period are given",
                "give one of them");
  }
  if (period == 0) {
    spec.frequency_hz = frequency_hz == 0 ? kDefaultFrequencyHz : frequency_hz;
    if (spec.frequency_hz > max_sample_rate_hz()) {
      return rate_over_limit("a frequency of " + std::to_string(spec.frequency_hz) + " Hz");
    }
    return {};
  }
  if (period > static_cast<std::uint64_t>(INT64_MAX)) {  // the kernel's own limit
    return fail(ErrorCode::kInvalidArgument,
                "a period of " + std::to_string(period) + " is over the limit of " +
                    std::to_string(INT64_MAX),
                "give a frequency instead");
  }
  if (spec.is_time && period < kNanosecondsPerSecond / max_sample_rate_hz()) {
    return rate_over_limit("a period of " + std::to_string(period) + " ns");
  }
  spec.period = period;
  return {};
}

EventKind kind_of_blocks(std::string_view name) {
  if (name == kRunnableEvent) return EventKind::kRunnable;
  return name == kWallEvent ? EventKind::kWall : EventKind::kOffCpu;
}

Result<EventSpec> make_block_spec(const KnownEvent& event, std::uint64_t frequency_hz,
                                  std::uint64_t period) {
  EventSpec spec{
      .name = std::string(event.name), .unit = "microseconds", .kind = kind_of_blocks(event.name)};
  if (spec.has_ticks()) {
    if (period != 0) {
      return fail(ErrorCode::kInvalidArgument, spec.name + " has no period: each block is measured",
                  "leave out --period; --freq is that of the CPU part");
    }
    spec.type = event.type;
    spec.config = event.config;
    if (const Result<void> rate = set_rate(spec, frequency_hz, 0); !rate) return rate.error();
    return spec;
  }
  if (frequency_hz != 0 || period != 0) {
    return fail(ErrorCode::kInvalidArgument,
                spec.name + " has no frequency: each block is measured",
                "leave out --freq and --period; -e wall takes a frequency for its CPU part");
  }
  spec.period = kBlockPeriodNs;
  return spec;
}

}  // namespace

Result<EventSpec> make_event_spec(std::string_view name, std::uint64_t frequency_hz,
                                  std::uint64_t period) {
  const auto blocks = block_events();
  if (const auto event = std::ranges::find(blocks, name, &KnownEvent::name);
      event != blocks.end()) {
    return make_block_spec(*event, frequency_hz, period);
  }
  const auto events = known_events();
  const auto event = std::ranges::find(events, name, &KnownEvent::name);
  if (event == events.end()) return unknown_event(name);
  EventSpec spec{.name = std::string(name),
                 .type = event->type,
                 .config = event->config,
                 .is_time = event->is_time,
                 .unit = event->is_time ? "microseconds" : std::string(name)};
  if (const Result<void> rate = set_rate(spec, frequency_hz, period); !rate) return rate.error();
  return spec;
}

bool is_default_event(const EventSpec& event) {
  return event.same_events({.name = {},
                            .type = known_events().front().type,
                            .config = known_events().front().config,
                            .unit = {},
                            .frequency_hz = kDefaultFrequencyHz});
}

std::string text_of(const EventSpec& event) {
  if (!event.has_ticks()) return event.name;
  return event.name + (event.period == 0 ? " at " + std::to_string(event.frequency_hz) + " Hz"
                                         : " with a period of " + std::to_string(event.period));
}

std::vector<std::string_view> event_names() {
  std::vector<std::string_view> names;
  names.reserve(known_events().size() + block_events().size());
  std::ranges::transform(known_events(), std::back_inserter(names), &KnownEvent::name);
  std::ranges::transform(block_events(), std::back_inserter(names), &KnownEvent::name);
  return names;
}

std::uint64_t max_sample_rate_hz() {
  std::ifstream file("/proc/sys/kernel/perf_event_max_sample_rate");
  std::uint64_t rate = 0;
  return file >> rate && rate > 0 ? rate : kKernelDefaultMaxSampleRateHz;
}

}  // namespace profd
