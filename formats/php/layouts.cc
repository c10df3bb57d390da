#include "formats/php/layouts.h"

#include <algorithm>
#include <cstring>

namespace profd::php {
namespace {

constexpr std::uint8_t kFirstNumber = 16;
constexpr std::uint32_t kCallTop = std::uint32_t{1} << 17;

// The name of the file stands in op_array, which has grown: its place, and behind it line_start.
constexpr profd_php_layout layout_with(std::uint16_t file) {
  profd_php_layout layout{};
  layout.frame_opline = 0;
  layout.frame_function = 24;
  layout.frame_type_info = 40;
  layout.frame_previous = 48;
  layout.frame_bytes = 56;
  layout.function_type = 0;
  layout.function_name = 8;
  layout.function_scope = 16;
  layout.function_file = file;
  layout.function_first_line = static_cast<std::uint16_t>(file + 8);
  layout.function_bytes = static_cast<std::uint16_t>(file + 12);
  layout.class_name = 8;
  layout.string_length = 16;
  layout.string_text = 24;
  layout.opline_line = 24;
  layout.top_call_mask = kCallTop;
  return layout;
}

constexpr std::array<Version, 8> kPhpVersions = {{
    {7, 3, kFirstNumber, 488, layout_with(128)},
    {7, 4, kFirstNumber + 1, 488, layout_with(136)},
    {8, 0, kFirstNumber + 2, 488, layout_with(144)},
    {8, 1, kFirstNumber + 3, 488, layout_with(144)},
    {8, 2, kFirstNumber + 4, 488, layout_with(152)},
    {8, 3, kFirstNumber + 5, 488, layout_with(144)},
    {8, 4, kFirstNumber + 6, 488, layout_with(168)},
    {8, 5, kFirstNumber + 7, 512, layout_with(168)},
}};
static_assert(kPhpVersions.back().layout_number < PROFD_MAX_LAYOUTS);
static_assert(kPhpVersions.back().layout.function_bytes <= PROFD_PHP_MAX_FUNCTION_BYTES);

}  // namespace

std::span<const Version> versions() { return kPhpVersions; }

const Version* find_version(unsigned major, unsigned minor) {
  const auto found = std::ranges::find_if(kPhpVersions, [&](const Version& version) {
    return version.major == major && version.minor == minor;
  });
  return found == kPhpVersions.end() ? nullptr : &*found;
}

profd_layout to_layout(const profd_php_layout& layout) {
  static_assert(sizeof layout <= sizeof(profd_layout));
  profd_layout made{};
  std::memcpy(&made, &layout, sizeof layout);
  return made;
}

}  // namespace profd::php
