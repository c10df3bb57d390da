// The reasons for which an app stops taking part in a session before the session is stopped. Status
// counts them by name, session.json has the one of its session, and `profctl stop` prints its text.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace profd::xray {

enum class DetachReason : std::uint32_t {
  kAsAsked,       // the app detached when it was asked to, or has not detached
  kGone,          // the app ended, or closed its connection
  kSilent,        // the app does not answer
  kRefused,       // the app answers that it can't be recorded
  kNonsense,      // the app sent an invalid or unexpected answer
  kFlood,         // the app sent more answers than there were requests
  kBadMemory,     // the app's shared memory is invalid
  kStillPatched,  // the app did not confirm in time that its functions are unpatched
  kOutOfMemory,   // the app's functions or calls need more memory than the session may take
  kFollowerDied,  // the daemon's process that followed the app ended
};
inline constexpr std::size_t kDetachReasons =
    static_cast<std::size_t>(DetachReason::kFollowerDied) + 1;

// Both take any value; an invalid one counts as kFollowerDied.

// Whether the app violated the protocol, so that its connection must be closed.
[[nodiscard]] bool is_misconduct(DetachReason reason);

// The name in status and session.json, such as "app_gone".
[[nodiscard]] std::string_view name_of(DetachReason reason);

// A text that follows "the app", such as "has ended, or has closed its connection".
[[nodiscard]] std::string_view text_of(DetachReason reason);

}  // namespace profd::xray
