#include "collectors/xray/detach_reason.h"

namespace profd::xray {

bool is_misconduct(DetachReason end) {
  switch (end) {
    case DetachReason::kSilent:
    case DetachReason::kNonsense:
    case DetachReason::kFlood:
    case DetachReason::kBadMemory:
    case DetachReason::kStillPatched:
      return true;
    case DetachReason::kAsAsked:
    case DetachReason::kGone:
    case DetachReason::kRefused:
    case DetachReason::kOutOfMemory:
    case DetachReason::kFollowerDied:
      return false;
  }
  return false;
}

DetachReason end_of_talk(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
      return DetachReason::kGone;
    case ErrorCode::kTimeout:
      return DetachReason::kSilent;
    case ErrorCode::kUnsupported:
      return DetachReason::kRefused;
    case ErrorCode::kTooLarge:
      return DetachReason::kFlood;
    default:
      return DetachReason::kNonsense;
  }
}

}  // namespace profd::xray
