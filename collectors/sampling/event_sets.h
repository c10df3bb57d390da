// The sets of perf events that are open: one for all sessions with equal events, none that no
// session wants.
//
// `now` is what the programs have counted by the time of the call. Owned by the io thread.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "bpf/profd_abi.h"
#include "collectors/sampling/event_spec.h"
#include "collectors/sampling/perf_events.h"
#include "formats/base/result.h"

namespace profd {

class EventSets {
 public:
  // `program` is the sampling program's descriptor, which must outlive *this.
  explicit EventSets(int program) : program_(program) {}

  // For one session more: the index of the set of equal events that is open already, else of a new
  // one. Restricted sessions leave the last 3 sets to others. Errors: no free set, an event that
  // can't be opened.
  Result<unsigned> use(const EventSpec& event, bool restricted, const profd_counters& now);
  // The same where a session of that set is there.
  void share(unsigned index) { ++sets_[index]->sessions; }
  // Ends the use of one session.
  void release(unsigned index, const profd_counters& now);

  // Takes CPUs in that came, drops those that went (perf_events.h).
  void refresh();

  // Of all sets so far, closed ones too: how many ticks the programs have not seen, estimated by
  // what the events counted, and the gaps of CPUs.
  [[nodiscard]] std::uint64_t skipped(const profd_counters& now) const;
  [[nodiscard]] CpuGaps gaps() const;

 private:
  struct Set {
    PerfEvents events;
    std::uint64_t taken_before;
    unsigned sessions = 0;
  };
  using Sets = std::array<std::optional<Set>, PROFD_MAX_EVENT_SETS>;

  Result<Sets::iterator> find_or_choose(const EventSpec& event, bool restricted);
  [[nodiscard]] std::uint64_t skipped_by(unsigned index, const profd_counters& now) const;

  int program_;
  Sets sets_;
  std::uint64_t skipped_by_closed_ = 0;
  CpuGaps gaps_of_closed_;
};

}  // namespace profd
