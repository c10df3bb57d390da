// The frames without code in profiles of blocks: why a stack was not taken, and in profiles of
// `wall` the roots by which CPU and waits are apart. In gperftools profiles a frame is an address,
// so there an image names them, at addresses that no code of the kernel can have. Used on a worker.

#pragma once

#include <string>
#include <string_view>

#include "formats/profile/profile.h"

namespace profd {

// Empty: the stack was taken. `user_end` is a profd_user_end.
[[nodiscard]] std::string_view missing_stack_frame(unsigned user_end);

// `state` is a profd_block_state.
[[nodiscard]] std::string_view root_frame(unsigned state);

// `name` is one of the above, and not empty.
[[nodiscard]] Frame frame_in_block_image(std::string_view name);

[[nodiscard]] ProfileMapping block_image_mapping();
[[nodiscard]] std::string encode_block_image();

}  // namespace profd
