// The sets of perf events that are open. Sessions with equal events share one set, and a set is
// closed when its last session ends.
//
// A session uses the sets of its own rank and of those below, and shares no other set: by sharing
// it would hold a set of a higher rank after the session that opened it.
//
// `now` are the programs' counters at the time of the call. Owned by the io thread.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "bpf/profd_abi.h"
#include "collectors/sampling/event_spec.h"
#include "collectors/sampling/perf_events.h"
#include "formats/base/result.h"

namespace profd {

// Who a session belongs to. The last places of each table are kept for the higher ranks.
enum class Rank { kUnprivileged, kPrivileged, kContinuous };

class EventSets {
 public:
  // `program` is the sampling program's descriptor, which must outlive *this.
  explicit EventSets(int program) : program_(program) {}

  // Adds a session to the open set with equal events, else to a new set, and returns its index.
  // Errors: no free set, an event that can't be opened.
  Result<unsigned> use(const EventSpec& event, Rank rank, const profd_counters& now);
  // Adds a session to an open set.
  void share(unsigned index) { ++sets_[index]->sessions; }
  // Removes a session from its set.
  void release(unsigned index, const profd_counters& now);

  // Follows CPUs that come online and go offline (perf_events.h).
  void refresh();

  // Of all sets since the start, closed ones too: how many ticks the programs missed, estimated
  // from the events' own counts, and the gaps of CPUs.
  [[nodiscard]] std::uint64_t skipped(const profd_counters& now) const;
  [[nodiscard]] CpuGaps gaps() const;

 private:
  struct Set {
    PerfEvents events;
    std::uint64_t taken_before;
    unsigned sessions = 0;
  };
  using Sets = std::array<std::optional<Set>, PROFD_MAX_EVENT_SETS>;

  Result<Sets::iterator> find_or_choose(const EventSpec& event, Rank rank);
  [[nodiscard]] std::uint64_t skipped_by(unsigned index, const profd_counters& now) const;

  int program_;
  Sets sets_;
  std::uint64_t skipped_by_closed_ = 0;
  CpuGaps gaps_of_closed_;
};

}  // namespace profd
