#include "daemon/profiles/block_image.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "collectors/bpf/sample.h"
#include "daemon/profiles/profiled_object.h"
#include "formats/elf/image.h"
#include "formats/profile/block_names.h"

namespace profd {
namespace {

constexpr std::array kFrames = {kNotTakenFrame, kBeforeStartFrame, kOnCpuFrame, kBlockedFrame,
                                kRunnableFrame};

// The start of 2 GiB that the kernel leaves unused, below its text (Documentation/arch/x86/
// x86_64/mm.rst).
constexpr std::uint64_t kFirstFrame = 0xffffffff00000000;
constexpr std::uint64_t kFrameBytes = 16;

AbsoluteImage block_image() {
  AbsoluteImage image;
  image.functions.reserve(kFrames.size());
  for (std::size_t i = 0; i < kFrames.size(); ++i) {
    image.functions.push_back({.address = fold_kernel_address(kFirstFrame + i * kFrameBytes),
                               .bytes = kFrameBytes,
                               .name = std::string(kFrames[i])});
  }
  return image;
}

}  // namespace

std::string_view missing_stack_frame(unsigned user_end) {
  if (user_end == PROFD_END_NOT_TAKEN) return kNotTakenFrame;
  if (user_end == PROFD_END_BEFORE_START) return kBeforeStartFrame;
  return {};
}

std::string_view root_frame(unsigned state) {
  if (state == PROFD_BLOCK_NONE) return kOnCpuFrame;
  return state == PROFD_BLOCK_RUNNABLE ? kRunnableFrame : kBlockedFrame;
}

// In the middle of its function, so that neither neighbour is near.
Frame frame_in_block_image(std::string_view name) {
  const auto* const found = std::ranges::find(kFrames, name);
  const auto index = static_cast<std::uint64_t>(found - kFrames.begin());
  return {.pc = kFirstFrame + index * kFrameBytes + kFrameBytes / 2, .kind = PcKind::kExact};
}

// No file has such a name in a result: those of files and JIT code have a "-".
ProfileMapping block_image_mapping() {
  const ImagePlacement placement = placement_of(block_image());
  return {.start = placement.start,
          .end = placement.end,
          .file_offset = placement.file_offset,
          .path = line_path_of_image("waits")};
}

std::string encode_block_image() { return encode_absolute_image(block_image()); }

}  // namespace profd
