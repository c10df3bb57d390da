#include "daemon/profiles/code_address.h"

namespace profd {

// A signal handler returns to the restorer, an address that the kernel has put on the stack. The
// byte before it is not a call.
PcKind kind_of_frame(std::span<const std::uint64_t> words, std::size_t index) {
  const UserFrame frame = UserFrame::from_word(words[index]);
  const bool is_interrupted =
      frame.how == PROFD_FRAME_INTERRUPTED || frame.how == PROFD_FRAME_SIGNAL;
  const bool has_caller = index + 1 < words.size();
  const bool is_restorer =
      has_caller && UserFrame::from_word(words[index + 1]).how == PROFD_FRAME_SIGNAL;
  return is_interrupted || is_restorer ? PcKind::kExact : PcKind::kReturnAddress;
}

std::uint64_t code_address(const UserFrame& frame, PcKind kind) {
  return kind == PcKind::kExact ? frame.address : frame.address - 1;
}

}  // namespace profd
