#include "formats/python/prologue.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "formats/unwind/jumps.h"

namespace profd::python {
namespace {

constexpr unsigned char kWide = 0x48;  // REX.W, with any registers
constexpr unsigned char kWideMask = 0xf8;
constexpr unsigned char kStore = 0x89;  // mov %register, where
constexpr unsigned char kByteOffset = 0x40;
constexpr unsigned char kModeMask = 0xc0;
constexpr unsigned char kBaseMask = 0x07;
constexpr unsigned char kHasIndex = 0x04;  // as %rsp has
constexpr std::size_t kStoreBytes = 4;

// Where the instruction ends that stores a register at `offset(%register)`; 0: there is none.
std::size_t end_of_store(std::string_view code, std::uint16_t offset) {
  if (offset > INT8_MAX) return 0;
  for (std::size_t at = 0; at + kStoreBytes <= code.size(); ++at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(code[at + i]); };
    const bool is_store = (byte(0) & kWideMask) == kWide && byte(1) == kStore;
    const bool has_offset = (byte(2) & kModeMask) == kByteOffset && byte(3) == offset;
    if (is_store && has_offset && (byte(2) & kBaseMask) != kHasIndex) return at + kStoreBytes;
  }
  return 0;
}

}  // namespace

std::uint8_t find_prologue(std::string_view code, const profd_python_layout& layout) {
  if (layout.has_prologue == 0) return 0;
  const std::size_t linked =
      end_of_store(code.substr(0, PROFD_PYTHON_PROLOGUE_BYTES), layout.tstate_cframe);
  if (linked == 0) return 0;
  std::int64_t first = PROFD_PYTHON_PROLOGUE_BYTES;
  for (const CodeJump& jump : find_jumps(code)) {
    const bool is_from_entry = jump.at < PROFD_PYTHON_PROLOGUE_BYTES;
    if (is_from_entry || jump.target < static_cast<std::int64_t>(linked)) continue;
    first = std::min(first, jump.target);
  }
  return first < PROFD_PYTHON_PROLOGUE_BYTES ? static_cast<std::uint8_t>(first) : 0;
}

}  // namespace profd::python
