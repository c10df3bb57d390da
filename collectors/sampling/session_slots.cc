#include "collectors/sampling/session_slots.h"

#include <string>

namespace profd {
namespace {

constexpr std::size_t slots_of(Rank rank) {
  constexpr std::size_t kSlots = PROFD_MAX_SESSIONS;
  constexpr std::size_t kOfWindows = 4;
  if (rank == Rank::kUnprivileged) return kSlots / 2;
  return rank == Rank::kPrivileged ? kSlots - kOfWindows : kSlots;
}

}  // namespace

Result<void> SessionSlots::check_ending(uid_t user) const {
  std::size_t of_users = 0;
  std::size_t of_user = 0;
  for (const Slot& slot : slots_) {
    if (slot.state != State::kEnding || slot.owner.rank != Rank::kUnprivileged) continue;
    ++of_users;
    if (slot.owner.user == user) ++of_user;
  }
  if (of_users < kMaxEnding && of_user < kMaxEndingOfUser) return {};
  return fail(ErrorCode::kBusy, "sessions that failed to start are not removed yet",
              "try again after a second");
}

Result<SessionSlot> SessionSlots::find_free(const SessionOwner& owner) const {
  if (owner.rank == Rank::kUnprivileged) {
    if (auto allowed = check_ending(owner.user); !allowed) return allowed.error();
  }
  const std::size_t places = slots_of(owner.rank);
  // From the last one, so that a high rank leaves the slots of the lower ones to them.
  for (std::size_t slot = places; slot-- > 0;) {
    if (slots_[slot].state == State::kFree) return static_cast<SessionSlot>(slot);
  }
  return fail(ErrorCode::kBusy, "all " + std::to_string(places) + " session slots are in use",
              "stop a session first");
}

void SessionSlots::take(SessionSlot slot, const SessionOwner& owner) {
  slots_[slot] = {.state = State::kLive, .owner = owner};
}

void SessionSlots::free_settled(const std::function<bool(SessionSlot)>& is_settled,
                                const std::function<void(SessionSlot)>& release) {
  for (SessionSlot slot = 0; slot < slots_.size(); ++slot) {
    const State state = slots_[slot].state;
    if (state != State::kEnding && state != State::kRetired) continue;
    if (!is_settled(slot)) continue;
    if (state == State::kEnding) release(slot);
    free(slot);
  }
}

}  // namespace profd
