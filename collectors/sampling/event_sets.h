// The sets of perf events that are open. Sessions with equal events share one set, and a set is
// closed when its last session ends.
//
// A session uses the sets of its own rank and of those below, and shares no other set: by sharing
// it would hold a set of a higher rank after the session that opened it.
//
// Unprivileged users have one set that is kept for the default event, which any number of sessions
// share, so that a session with the default event always finds it. Of the others, one user has
// sessions in two at most: in whatever set, since a set that several users share may soon be the
// last one's.
//
// `now` are the programs' counters at the time of the call. Owned by the io thread.

#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>

#include "bpf/profd_abi.h"
#include "collectors/sampling/event_spec.h"
#include "collectors/sampling/perf_events.h"
#include "formats/base/result.h"

namespace profd {

// Who a session belongs to. The last places of each table are kept for the higher ranks.
enum class Rank { kUnprivileged, kPrivileged, kContinuous };

struct SessionOwner {
  Rank rank = Rank::kPrivileged;
  uid_t user = 0;  // of an unprivileged one: the user whose uid it is (uid_owners.h)
};

class EventSets {
 public:
  // `program` is the sampling program's descriptor, which must outlive *this.
  explicit EventSets(int program) : program_(program) {}

  // With a set for the default event, besides it.
  static constexpr std::size_t kMaxSetsOfUser = 2;

  // Adds a session to the open set with equal events, else to a new set, and returns its index.
  // Errors: no free set, the user has too many, an event that can't be opened.
  Result<unsigned> use(const EventSpec& event, const SessionOwner& owner,
                       const profd_counters& now);
  // Adds a window to an open set.
  void share(unsigned index) { ++sets_[index]->sessions; }
  // Removes a session from its set. `owner` as in use().
  void release(unsigned index, const SessionOwner& owner, const profd_counters& now);

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
    std::multiset<uid_t> users{};  // of the unprivileged ones
  };
  using Sets = std::array<std::optional<Set>, PROFD_MAX_EVENT_SETS>;

  Result<Sets::iterator> find_or_choose(const EventSpec& event, const SessionOwner& owner);
  [[nodiscard]] std::optional<std::size_t> free_place(const EventSpec& event, Rank rank) const;
  [[nodiscard]] Result<void> check_share(const Sets::iterator& place, const EventSpec& event,
                                         const SessionOwner& owner) const;
  [[nodiscard]] Error all_in_use(Rank rank) const;
  [[nodiscard]] std::uint64_t skipped_by(unsigned index, const profd_counters& now) const;

  int program_;
  Sets sets_;
  std::uint64_t skipped_by_closed_ = 0;
  CpuGaps gaps_of_closed_;
};

}  // namespace profd
