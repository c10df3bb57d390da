// The event that a session samples: a perf event by its perf name, and how often a sample is taken.
//
// Names are perf's (perf-list(1)) of software and hardware events; the error for an unknown name
// offers the nearest ones. The default "cpu" is the CPU clock, not cycles: the clock's samples
// times its period are the CPU time to 0.1 %. Those of cycles were 2 % off at a steady clock speed,
// and are off by as much as the clock speed varies. The interrupt of a hardware counter is an NMI,
// which took 17 us in a VM, and makes the kernel lower perf_event_max_sample_rate for the whole
// host.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"

namespace profd {

// Who takes the samples.
enum class EventKind : std::uint8_t {
  kPerf,      // a perf event
  kOffCpu,    // the switches of threads: blocks, up to the switch back
  kRunnable,  // the switches: waits of runnable threads for a CPU
  kWall,      // both, and the CPU clock at the frequency
};

struct EventSpec {
  std::string name;          // as requested: "cpu", "cpu-clock", "page-faults", ...
  std::uint32_t type = 0;    // PERF_TYPE_*
  std::uint64_t config = 0;  // PERF_COUNT_*
  bool is_time = true;       // samples stand for CPU time
  std::string unit;          // "microseconds" for time, else the event's name
  // Exactly one of these two is not 0.
  std::uint64_t frequency_hz = 0;  // samples a second, kept by the kernel
  std::uint64_t period = 0;        // events a sample; nanoseconds for the clocks
  // Of all but kPerf, samples have a time of their own, and `is_time`. kOffCpu and kRunnable have
  // a period of 1,000 ns, by which gperftools profiles count microseconds, and no type or config.
  EventKind kind = EventKind::kPerf;

  [[nodiscard]] bool has_blocks() const { return kind != EventKind::kPerf; }
  [[nodiscard]] bool has_ticks() const {
    return kind == EventKind::kPerf || kind == EventKind::kWall;
  }

  // Sessions with equal events share one set of perf events, whatever the alias in `name`. False
  // for events without one.
  [[nodiscard]] bool same_events(const EventSpec& other) const {
    return has_ticks() && other.has_ticks() && type == other.type && config == other.config &&
           frequency_hz == other.frequency_hz && period == other.period;
  }
};

// Looks the name up and checks the rate against the kernel's limit. A frequency or period of 0 is
// not given. With neither, the frequency is 99 Hz; both are an error, and so is either of them for
// an event whose samples have a time of their own, except for a frequency of `wall`.
[[nodiscard]] Result<EventSpec> make_event_spec(std::string_view name, std::uint64_t frequency_hz,
                                                std::uint64_t period);

// The event of a session that names none: the CPU clock at 99 Hz.
[[nodiscard]] bool is_default_event(const EventSpec& event);

// For messages: "cpu at 99 Hz", "page-faults with a period of 1000".
[[nodiscard]] std::string text_of(const EventSpec& event);

// Every name that make_event_spec() knows.
[[nodiscard]] std::vector<std::string_view> event_names();

// /proc/sys/kernel/perf_event_max_sample_rate; the kernel's default when the file can't be read.
[[nodiscard]] std::uint64_t max_sample_rate_hz();

}  // namespace profd
