#include "daemon/samples/stack_end.h"

#include <array>

namespace profd {
namespace {

// By profd_user_end. "frame_pointer_zero" is for stacks that end at a zero frame pointer but not at
// their root: in a thread of code without unwind rows, or where code without frame pointers left a
// 0 in the register. No sample that is counted has "late": deferred unwinding replaces it.
constexpr std::array<std::string_view, PROFD_END_COUNT> kReasons = {
    "no_user_stack",
    "frame_pointer_zero",
    "no_frame_pointer",
    "pc_unmapped",
    "pc_not_executable",
    "stack_unreadable",
    "depth_limit",
    "mapping_race",
    "entry",
    "no_row",
    "no_table",
    "cfa_not_above",
    "register_lost",
    "late",
    "table_late",
    "window",
};

}  // namespace

bool reached_root(unsigned user_end) { return user_end == PROFD_END_ENTRY; }

std::string_view incomplete_reason(StackClass stack_class, unsigned user_end) {
  if (stack_class == StackClass::kCompat) return "32_bit";
  return user_end < kReasons.size() ? kReasons[user_end] : "unknown";
}

}  // namespace profd
