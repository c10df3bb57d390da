#include "collectors/xray/detach_reason.h"

namespace profd::xray {

bool is_misconduct(AppEnd end) {
  switch (end) {
    case AppEnd::kSilent:
    case AppEnd::kNonsense:
    case AppEnd::kFlood:
    case AppEnd::kBadMemory:
    case AppEnd::kStillPatched:
      return true;
    case AppEnd::kAsAsked:
    case AppEnd::kGone:
    case AppEnd::kRefused:
    case AppEnd::kOutOfMemory:
    case AppEnd::kFollowerDied:
      return false;
  }
  return false;
}

AppEnd end_of_talk(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
      return AppEnd::kGone;
    case ErrorCode::kTimeout:
      return AppEnd::kSilent;
    case ErrorCode::kUnsupported:
      return AppEnd::kRefused;
    case ErrorCode::kTooLarge:
      return AppEnd::kFlood;
    default:
      return AppEnd::kNonsense;
  }
}

}  // namespace profd::xray
