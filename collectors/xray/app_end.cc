#include "collectors/xray/app_end.h"

#include <array>

namespace profd::xray {
namespace {

constexpr std::array<std::string_view, kAppEnds> kNames{
    "as_asked",  "app_gone",   "app_silent",    "app_refused",   "app_nonsense",
    "app_flood", "app_memory", "still_patched", "out_of_memory", "follower_died"};

}  // namespace

std::string_view name_of(AppEnd end) {
  const auto index = static_cast<std::size_t>(end);
  return kNames[index < kAppEnds ? index : static_cast<std::size_t>(AppEnd::kFollowerDied)];
}

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
