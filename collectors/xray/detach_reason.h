// What the ends of an app's part of a session (formats/xray/detach_reason.h) mean for who talks to
// it.

#pragma once

#include "formats/base/result.h"
#include "formats/xray/detach_reason.h"

namespace profd::xray {

// The app did not keep to the protocol: it is not talked to any more.
[[nodiscard]] bool is_misconduct(DetachReason end);

// Of an error in the conversation with the app (app_link.h).
[[nodiscard]] DetachReason end_of_talk(ErrorCode code);

}  // namespace profd::xray
