// One set of perf events: the same event on every online CPU, each running the sampling program.
//
// CPUs come and go: an event dies with its CPU and does not come back with it (Linux 6.18), so
// refresh() reopens. The kernel stops counting when the set is destroyed. Owned by the io thread.

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

// CPUs that went and came back, and the time from their events' last sign of life until new ones
// were opened.
struct CpuGaps {
  std::uint64_t count = 0;
  std::chrono::nanoseconds time{};

  CpuGaps& operator+=(const CpuGaps& other);
};

class PerfEvents {
 public:
  using Clock = std::chrono::steady_clock;

  // `program` is the sampling program's descriptor, borrowed for as long as the set lives; `index`
  // is what the program finds as its cookie. Fails when the event can't be opened on some online
  // CPU.
  static Result<PerfEvents> open(const EventSpec& spec, unsigned index, int program);

  // Opens events on CPUs that came, or came back, since the last call; drops those of CPUs that
  // went.
  void refresh(Clock::time_point now = Clock::now());

  [[nodiscard]] const CpuGaps& gaps() const { return gaps_; }

  // How many ticks the counts of the events stand for, those of CPUs gone included. 0 where the
  // kernel chooses the period as it goes (a hardware event by frequency).
  [[nodiscard]] std::uint64_t expected_ticks() const;

  [[nodiscard]] const EventSpec& spec() const { return spec_; }

 private:
  struct CpuEvent {
    unsigned cpu;
    UniqueFd event;
    UniqueFd link;                 // destroyed first: the event must outlive it
    std::uint64_t enabled_ns = 0;  // at the last refresh
    Clock::time_point alive_at{};  // when it was seen to be
  };

  PerfEvents(EventSpec spec, std::uint64_t fixed_period, unsigned index, int program)
      : spec_(std::move(spec)), fixed_period_(fixed_period), index_(index), program_(program) {}
  [[nodiscard]] Result<CpuEvent> open_on(unsigned cpu) const;

  EventSpec spec_;
  std::uint64_t fixed_period_;  // 0: the kernel adjusts it to the frequency
  unsigned index_;
  int program_;
  std::vector<CpuEvent> events_;
  std::map<unsigned, Clock::time_point> dead_;  // CPUs without an event, by when it was alive last
  CpuGaps gaps_;
  std::uint64_t closed_count_ = 0;
};

// "0-3,5" -> {0, 1, 2, 3, 5}: the list format of the kernel's CPU masks. Malformed parts are left
// out.
[[nodiscard]] std::vector<unsigned> parse_cpu_list(std::string_view list);

}  // namespace profd
