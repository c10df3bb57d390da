#include "collectors/jit/stats.h"

namespace profd {

std::string_view name_of(JitRefusal reason) {
  constexpr std::array<std::string_view, kJitRefusalCount> kNames = {
      "link",    "not_regular",   "foreign_owner", "leased",     "on_fuse",     "too_large",
      "stale",   "not_permitted", "late",          "malformed",  "foreign_pid", "truncated",
      "timeout", "parser_died",   "over_memory",   "over_share", "queue_full"};
  return kNames[static_cast<std::size_t>(reason)];
}

}  // namespace profd
