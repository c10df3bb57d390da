#include "collectors/unwinding/stats.h"

namespace profd {

std::string_view name_of(TableRefusal reason) {
  constexpr std::array<std::string_view, kTableRefusalCount> kNames = {
      "vanished", "changed",     "malformed",   "unsupported", "too_large",
      "timeout",  "parser_died", "over_memory", "over_share",  "queue_full"};
  return kNames[static_cast<std::size_t>(reason)];
}

}  // namespace profd
