#include "formats/xray/detach_reason.h"

#include <algorithm>
#include <array>

namespace profd::xray {
namespace {

struct Entry {
  std::string_view name;
  std::string_view text;
  bool is_misconduct = false;
};

constexpr std::array<Entry, kDetachReasons> kEntries{{
    {"as_asked", "detached when it was asked to"},
    {"app_gone", "has ended, or has closed its connection"},
    {"app_silent", "does not answer; it may be stopped", true},
    {"app_refused",
     "can't be recorded: it is not instrumented, uses XRay itself, or has no memory"},
    {"app_nonsense", "sent an invalid answer, or runs another program than its file", true},
    {"app_flood", "sent more answers than there were requests", true},
    {"app_memory", "has invalid shared memory", true},
    {"still_patched", "did not confirm in time that its functions are unpatched", true},
    {"out_of_memory", "has more functions or calls than fit into the memory of a session"},
    {"follower_died", "was followed by a process of profd that died"},
}};

const Entry& entry_of(DetachReason reason) {
  const auto last = static_cast<std::size_t>(DetachReason::kFollowerDied);
  return kEntries[std::min(static_cast<std::size_t>(reason), last)];
}

}  // namespace

bool is_misconduct(DetachReason reason) { return entry_of(reason).is_misconduct; }
std::string_view name_of(DetachReason reason) { return entry_of(reason).name; }
std::string_view text_of(DetachReason reason) { return entry_of(reason).text; }

}  // namespace profd::xray
