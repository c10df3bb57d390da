#include "collectors/sampling/event_sets.h"

#include <algorithm>
#include <string>
#include <utility>

namespace profd {
namespace {

// The sets that a rank may use. Unprivileged sessions have half of them, and one is continuous
// mode's alone.
constexpr std::size_t places_of(Rank rank) {
  constexpr std::size_t kSets = PROFD_MAX_EVENT_SETS;
  return rank == Rank::kUnprivileged ? kSets / 2 : kSets - (rank == Rank::kPrivileged ? 1 : 0);
}

}  // namespace

// The last free set is chosen, so that a high rank leaves the sets of the lower ones to them.
Result<EventSets::Sets::iterator> EventSets::find_or_choose(const EventSpec& event, Rank rank) {
  const std::size_t places = places_of(rank);
  std::optional<std::size_t> free;
  for (std::size_t i = 0; i < places; ++i) {
    const std::optional<Set>& set = sets_[i];
    if (set && set->events.spec().same_events(event)) return sets_.begin() + i;
    if (!set) free = i;
  }
  if (free) return sets_.begin() + *free;
  return fail(ErrorCode::kBusy, "all " + std::to_string(places) + " sets of events are in use",
              "use the event and frequency of a running session");
}

Result<unsigned> EventSets::use(const EventSpec& event, Rank rank, const profd_counters& now) {
  const auto place = find_or_choose(event, rank);
  if (!place) return place.error();
  std::optional<Set>& set = **place;
  const auto index = static_cast<unsigned>(*place - sets_.begin());
  if (!set) {
    auto events = PerfEvents::open(event, index, program_);
    if (!events) return events.error();
    set.emplace(Set{.events = std::move(*events), .taken_before = now.event_set_taken[index]});
  }
  ++set->sessions;
  return index;
}

void EventSets::release(unsigned index, const profd_counters& now) {
  std::optional<Set>& set = sets_[index];
  if (--set->sessions != 0) return;
  skipped_by_closed_ += skipped_by(index, now);
  gaps_of_closed_ += set->events.gaps();
  set.reset();
}

void EventSets::refresh() {
  for (std::optional<Set>& set : sets_) {
    if (set) set->events.refresh();
  }
}

std::uint64_t EventSets::skipped_by(unsigned index, const profd_counters& now) const {
  const Set& set = *sets_[index];
  const std::uint64_t expected = set.events.expected_ticks();
  const std::uint64_t taken = now.event_set_taken[index] - set.taken_before;
  return expected > taken ? expected - taken : 0;
}

std::uint64_t EventSets::skipped(const profd_counters& now) const {
  std::uint64_t skipped = skipped_by_closed_;
  for (unsigned i = 0; i < sets_.size(); ++i) {
    if (sets_[i]) skipped += skipped_by(i, now);
  }
  return skipped;
}

CpuGaps EventSets::gaps() const {
  CpuGaps gaps = gaps_of_closed_;
  for (const std::optional<Set>& set : sets_) {
    if (set) gaps += set->events.gaps();
  }
  return gaps;
}

}  // namespace profd
