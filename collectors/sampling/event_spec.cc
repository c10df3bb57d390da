#include "collectors/sampling/event_spec.h"

#include <linux/perf_event.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

#include "formats/base/nearest_name.h"

namespace profd {
namespace {

struct NamedEvent {
  std::string_view name;
  std::uint32_t type;
  std::uint64_t config;
  bool is_time = false;
};

constexpr std::uint64_t kDefaultFrequencyHz = 99;  // not 100: no lockstep with timers
constexpr std::uint64_t kKernelDefaultMaxSampleRateHz = 100'000;
constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;

// perf's names and aliases, perf-list(1).
constexpr std::array kEvents = {
    NamedEvent{"cpu", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true},
    NamedEvent{"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true},
    NamedEvent{"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, true},
    NamedEvent{"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
    NamedEvent{"faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
    NamedEvent{"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN},
    NamedEvent{"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ},
    NamedEvent{"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
    NamedEvent{"cs", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
    NamedEvent{"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
    NamedEvent{"migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
    NamedEvent{"alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS},
    NamedEvent{"emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS},
    NamedEvent{"cgroup-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CGROUP_SWITCHES},
    NamedEvent{"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    NamedEvent{"cpu-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    NamedEvent{"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    NamedEvent{"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},
    NamedEvent{"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    NamedEvent{"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    NamedEvent{"branch-instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    NamedEvent{"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    NamedEvent{"bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES},
    NamedEvent{"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES},
    NamedEvent{"stalled-cycles-frontend", PERF_TYPE_HARDWARE,
               PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    NamedEvent{"idle-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    NamedEvent{"stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
    NamedEvent{"idle-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
};

Error unknown_event(std::string_view name) {
  const std::vector<std::string_view> known = event_names();
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string hint = did_you_mean(nearest_names(lower, known));
  if (hint.empty()) hint = "perf list hw sw shows the names";
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

}  // namespace

Result<EventSpec> make_event_spec(std::string_view name, std::uint64_t frequency_hz,
                                  std::uint64_t period) {
  const auto* const event = std::ranges::find(kEvents, name, &NamedEvent::name);
  if (event == kEvents.end()) return unknown_event(name);
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
                            .type = kEvents.front().type,
                            .config = kEvents.front().config,
                            .unit = {},
                            .frequency_hz = kDefaultFrequencyHz});
}

std::string text_of(const EventSpec& event) {
  return event.name + (event.period == 0 ? " at " + std::to_string(event.frequency_hz) + " Hz"
                                         : " with a period of " + std::to_string(event.period));
}

std::vector<std::string_view> event_names() {
  std::vector<std::string_view> names;
  std::ranges::transform(kEvents, std::back_inserter(names), &NamedEvent::name);
  return names;
}

std::uint64_t max_sample_rate_hz() {
  std::ifstream file("/proc/sys/kernel/perf_event_max_sample_rate");
  std::uint64_t rate = 0;
  return file >> rate && rate > 0 ? rate : kKernelDefaultMaxSampleRateHz;
}

}  // namespace profd
