#include "collectors/sampling/event_sets.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace profd {
namespace {

constexpr const char* kDefaultText = "cpu at 99 Hz";
constexpr std::size_t kDefaultPlace = 0;

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

// The sets that a rank may use. Unprivileged sessions have half of them, and one is continuous
// mode's alone.
constexpr std::size_t places_of(Rank rank) {
  constexpr std::size_t kSets = PROFD_MAX_EVENT_SETS;
  return rank == Rank::kUnprivileged ? kSets / 2 : kSets - (rank == Rank::kPrivileged ? 1 : 0);
}

}  // namespace

// The last free set is chosen, so that a high rank leaves the sets of the lower ones to them. Users
// have the first one for the default event alone.
std::optional<std::size_t> EventSets::free_place(const EventSpec& event, Rank rank) const {
  const bool is_users = rank == Rank::kUnprivileged;
  if (is_users && is_default_event(event) && !sets_[kDefaultPlace]) return kDefaultPlace;
  for (std::size_t i = places_of(rank); i-- > (is_users ? kDefaultPlace + 1 : 0);) {
    if (!sets_[i]) return i;
  }
  return std::nullopt;
}

// Whether the user may have a session in the set at `place`, or in a new one there.
Result<void> EventSets::check_share(const Sets::iterator& place, const EventSpec& event,
                                    const SessionOwner& owner) const {
  if (owner.rank != Rank::kUnprivileged || is_default_event(event)) return {};
  if (*place && (*place)->users.contains(owner.user)) return {};
  std::vector<std::string> held;
  for (const std::optional<Set>& set : sets_) {
    if (!set || is_default_event(set->events.spec())) continue;
    if (set->users.contains(owner.user)) held.push_back(text_of(set->events.spec()));
  }
  if (held.size() < kMaxSetsOfUser) return {};
  return fail(
      ErrorCode::kBusy,
      "sessions of user " + std::to_string(owner.user) + " sample " + joined(held) +
          ", and one user has " + std::to_string(kMaxSetsOfUser) +
          " events or frequencies at once besides " + kDefaultText,
      "stop one of these sessions, or use one of these events or " + std::string(kDefaultText));
}

Error EventSets::all_in_use(Rank rank) const {
  const std::size_t places = places_of(rank);
  const bool is_users = rank == Rank::kUnprivileged;
  std::vector<std::string> held;
  for (std::size_t i = 0; i < places; ++i) {
    if (sets_[i]) held.push_back(text_of(sets_[i]->events.spec()));
  }
  return fail(ErrorCode::kBusy,
              "all sets of events " + std::string(is_users ? "of unprivileged users " : "") +
                  "are in use: " + joined(held),
              "use one of these events" +
                  (is_users ? " or " + std::string(kDefaultText) : std::string()) +
                  ", or try again when a session has ended");
}

Result<EventSets::Sets::iterator> EventSets::find_or_choose(const EventSpec& event,
                                                            const SessionOwner& owner) {
  const auto end = sets_.begin() + places_of(owner.rank);
  auto place = std::find_if(sets_.begin(), end, [&](const std::optional<Set>& set) {
    return set && set->events.spec().same_events(event);
  });
  if (place == end) {
    const auto free = free_place(event, owner.rank);
    if (!free) return all_in_use(owner.rank);
    place = sets_.begin() + *free;
  }
  if (auto allowed = check_share(place, event, owner); !allowed) return allowed.error();
  return place;
}

Result<unsigned> EventSets::use(const EventSpec& event, const SessionOwner& owner,
                                const profd_counters& now) {
  const auto place = find_or_choose(event, owner);
  if (!place) return place.error();
  std::optional<Set>& set = **place;
  const auto index = static_cast<unsigned>(*place - sets_.begin());
  if (!set) {
    auto events = PerfEvents::open(event, index, program_);
    if (!events) return events.error();
    set.emplace(Set{.events = std::move(*events), .taken_before = now.event_set_taken[index]});
  }
  ++set->sessions;
  if (owner.rank == Rank::kUnprivileged) set->users.insert(owner.user);
  return index;
}

void EventSets::release(unsigned index, const SessionOwner& owner, const profd_counters& now) {
  std::optional<Set>& set = sets_[index];
  if (owner.rank == Rank::kUnprivileged) set->users.extract(owner.user);
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
