// Why the app's part of a session ended before it was asked to, each with a name of its own: status
// counts them, session.json tells the one of its session.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "formats/result.h"

namespace profd::xray {

enum class AppEnd : std::uint32_t {
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
inline constexpr std::size_t kAppEnds = static_cast<std::size_t>(AppEnd::kFollowerDied) + 1;

// "app_gone": as status and session.json have it.
[[nodiscard]] std::string_view name_of(AppEnd end);

// The app did not keep to the protocol: it is not talked to any more.
[[nodiscard]] bool is_misconduct(AppEnd end);

// Of an error in the conversation with the app (app_link.h).
[[nodiscard]] AppEnd end_of_talk(ErrorCode code);

}  // namespace profd::xray
