#include "formats/xray/detach_reason.h"

#include <array>

namespace profd::xray {
namespace {

struct Words {
  std::string_view name;
  std::string_view text;
};

constexpr std::array<Words, kDetachReasons> kWords{{
    {"as_asked", "ended when it was asked to"},
    {"app_gone", "has ended, or has ended its connection"},
    {"app_silent", "doesn't answer; it may be stopped"},
    {"app_refused",
     "can't be recorded: it is not instrumented, uses XRay itself, or has no memory"},
    {"app_nonsense", "sent what is no answer, or is not the program that its file is"},
    {"app_flood", "answers without end"},
    {"app_memory", "has memory that is not as it should be"},
    {"still_patched", "did not say in time that its functions are as they were"},
    {"out_of_memory", "has more functions or calls than fit into what a session may take"},
    {"follower_died", "was followed by a process of profd that died"},
}};

const Words& words_of(DetachReason end) {
  const auto index = static_cast<std::size_t>(end);
  return kWords[index < kDetachReasons ? index
                                       : static_cast<std::size_t>(DetachReason::kFollowerDied)];
}

}  // namespace

std::string_view name_of(DetachReason end) { return words_of(end).name; }
std::string_view text_of(DetachReason end) { return words_of(end).text; }

}  // namespace profd::xray
