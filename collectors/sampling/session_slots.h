// The slots of sessions: which are in use, and which one a new session gets.
//
// The last places are kept for the higher ranks: unprivileged sessions have half of all slots, and
// four are continuous mode's alone: for windows of the CPU time and of the time off the CPU, each
// of which needs a second one when a window ends.
//
// A slot is not free at once when its session is over: it waits for its last samples, also where
// the session failed to start. A user can cause that many times a second, and no session counts for
// its limit then. So such slots have a limit of their own. Owned by the io thread.

#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <functional>

#include "bpf/profd_abi.h"
#include "collectors/bpf/sample.h"
#include "collectors/sampling/event_sets.h"
#include "formats/base/result.h"

namespace profd {

class SessionSlots {
 public:
  // Of unprivileged sessions that failed to start, until their slots are free.
  static constexpr std::size_t kMaxEnding = PROFD_MAX_SESSIONS / 4;
  static constexpr std::size_t kMaxEndingOfUser = PROFD_MAX_SESSIONS / 16;

  // Errors: kBusy.
  [[nodiscard]] Result<SessionSlot> find_free(const SessionOwner& owner) const;

  void take(SessionSlot slot, const SessionOwner& owner);
  // It is not a session's any more, and keeps its filter and its events until it is settled.
  void end(SessionSlot slot) { slots_[slot].state = State::kEnding; }
  // The same without filter and events: they are released already.
  void retire(SessionSlot slot) { slots_[slot].state = State::kRetired; }
  void free(SessionSlot slot) { slots_[slot].state = State::kFree; }

  // Frees the slots that are settled by now, after end() or retire(); `release` gets those of
  // end().
  void free_settled(const std::function<bool(SessionSlot)>& is_settled,
                    const std::function<void(SessionSlot)>& release);

  [[nodiscard]] const SessionOwner& owner(SessionSlot slot) const { return slots_[slot].owner; }

 private:
  enum class State { kFree, kLive, kEnding, kRetired };
  struct Slot {
    State state = State::kFree;
    SessionOwner owner{};
  };

  [[nodiscard]] Result<void> check_ending(uid_t user) const;

  std::array<Slot, PROFD_MAX_SESSIONS> slots_;
};

}  // namespace profd
