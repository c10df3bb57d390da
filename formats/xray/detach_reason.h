// Why an app's part of a session ended before it was asked to, each with a name of its own: status
// counts them, session.json tells the one of its session, and profctl stop says it in words.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace profd::xray {

enum class DetachReason : std::uint32_t {
  kAsAsked,       // none of the following
  kGone,          // its process, or its end of the connection, is no more
  kSilent,        // it does not answer
  kRefused,       // it says that it can't be recorded
  kNonsense,      // an answer that is none, or to what nobody asked
  kFlood,         // more answers than anybody can have asked for
  kBadMemory,     // its memory is not, or not any more, as it should be
  kStillPatched,  // it did not say in time that its functions are as they were
  kOutOfMemory,   // its functions or its calls need more memory than the session may take
  kFollowerDied,  // our own process that followed it
};
inline constexpr std::size_t kDetachReasons =
    static_cast<std::size_t>(DetachReason::kFollowerDied) + 1;

// "app_gone": as status and session.json have it. Of a value that is none, kFollowerDied's.
[[nodiscard]] std::string_view name_of(DetachReason end);

// "has ended, or has ended its connection": for people, behind "the app". Likewise.
[[nodiscard]] std::string_view text_of(DetachReason end);

}  // namespace profd::xray
