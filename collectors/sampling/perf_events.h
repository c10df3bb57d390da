// One set of perf events: the same event on every online CPU, each running the sampling program.
//
// When a CPU goes offline its event stops for good, also when the CPU comes back (Linux 6.18), so
// refresh() opens a new one. The kernel stops counting when the set is destroyed. Owned by the io
// thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "collectors/sampling/event_spec.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// How often a CPU went offline and came back, and the time from the last refresh() that saw its
// event count until a new event was opened.
struct CpuGaps {
  std::uint64_t count = 0;
  std::chrono::nanoseconds time{};

  CpuGaps& operator+=(const CpuGaps& other);
};

class PerfEvents {
 public:
  using Clock = std::chrono::steady_clock;

  // `program` is the sampling program's descriptor, borrowed for the life of the set; the program
  // gets `index` as its cookie. An error where the event can't be opened on an online CPU.
  static Result<PerfEvents> open(const EventSpec& spec, unsigned index, int program);

  // Opens events on CPUs that came online since the last call, and closes those of CPUs that went
  // offline.
  void refresh(Clock::time_point now = Clock::now());

  [[nodiscard]] const CpuGaps& gaps() const { return gaps_; }

  // The number of ticks that the events' counts amount to, with the events of offline CPUs. 0 where
  // the kernel adjusts the period (a hardware event by frequency).
  [[nodiscard]] std::uint64_t expected_ticks() const;

  [[nodiscard]] const EventSpec& spec() const { return spec_; }

 private:
  struct CpuEvent {
    unsigned cpu;
    UniqueFd event;
    UniqueFd link;                   // destroyed first: the event must outlive it
    std::uint64_t enabled_ns = 0;    // at the last refresh
    Clock::time_point counted_at{};  // the last refresh that saw it count
  };

  PerfEvents(EventSpec spec, std::uint64_t fixed_period, unsigned index, int program)
      : spec_(std::move(spec)), fixed_period_(fixed_period), index_(index), program_(program) {}
  [[nodiscard]] Result<CpuEvent> open_on(unsigned cpu) const;

  EventSpec spec_;
  std::uint64_t fixed_period_;  // 0: the kernel adjusts it to the frequency
  unsigned index_;
  int program_;
  std::vector<CpuEvent> events_;
  std::map<unsigned, Clock::time_point> offline_;  // by CPU: when its event was last seen to count
  CpuGaps gaps_;
  std::uint64_t closed_count_ = 0;
};

// "0-3,5" -> {0, 1, 2, 3, 5}: the list format of the kernel's CPU masks. Malformed parts are
// skipped.
[[nodiscard]] std::vector<unsigned> parse_cpu_list(std::string_view list);

}  // namespace profd
