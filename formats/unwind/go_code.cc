#include "formats/unwind/go_code.h"

#include <algorithm>
#include <cstdint>

#include <string.h>

#include "formats/base/cursor.h"

namespace profd::go {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kCallBytes = 5;
constexpr std::string_view kMoveToNewStack = "\x48\x89\xf4"sv;       // mov %rsi, %rsp
constexpr std::string_view kCloneCall = "\xb8\x38\0\0\0\x0f\x05"sv;  // mov $56, %eax; syscall
// In the child: call *%r12; mov $111, %edi; mov $60, %eax; syscall (exit); jmp.
constexpr std::string_view kCloneEnd = "\x41\xff\xd4\xbf\x6f\0\0\0\xb8\x3c\0\0\0\x0f\x05\xeb"sv;
constexpr std::size_t kMaxCloneBytes = 128;  // between them: 65 in Go 1.19

// The target of the call at `at`, which may lie outside of the code; none: another instruction.
std::optional<std::int64_t> call_target(std::string_view code, std::size_t at) {
  if (code.size() < at + kCallBytes || code[at] != '\xe8') return std::nullopt;
  const auto distance =
      static_cast<std::int32_t>(Cursor(code.substr(at + 1, kCallBytes - 1)).read<std::uint32_t>());
  return static_cast<std::int64_t>(at + kCallBytes) + distance;
}

// int $3; jmp to itself.
bool is_abort(std::string_view code) {
  return code.starts_with("\xcd\x03\xeb\xfe"sv) || code.starts_with("\xcc\xeb\xfe"sv);
}

}  // namespace

bool is_goexit(std::string_view code) {
  return code.starts_with("\x90\xe8"sv) && code.substr(6).starts_with("\x90\xcc"sv);
}

bool has_shape_of_mstart(std::string_view code) {
  return code.size() > kMstartBytes && code[0] == '\xe8' && code[5] == '\xc3' && code[6] == '\xcc';
}

bool is_mstart(std::string_view code, std::size_t mstart) {
  for (std::size_t at = 0; at + 2 * kCallBytes <= mstart; ++at) {
    if (call_target(code, at) != static_cast<std::int64_t>(mstart)) continue;
    const auto abort = call_target(code, at + kCallBytes);
    if (abort && *abort >= 0 && *abort < static_cast<std::int64_t>(code.size()) &&
        is_abort(code.substr(static_cast<std::size_t>(*abort)))) {
      return true;
    }
  }
  return false;
}

std::optional<CloneCode> find_clone(std::string_view code) {
  const void* const found = ::memmem(code.data(), code.size(), kCloneEnd.data(), kCloneEnd.size());
  if (found == nullptr) return std::nullopt;
  const auto tail = static_cast<std::size_t>(static_cast<const char*>(found) - code.data());
  const std::size_t first = tail - std::min(tail, kMaxCloneBytes);
  const std::string_view before = code.substr(first, tail - first);
  const std::size_t call = before.rfind(kCloneCall);
  const std::size_t child = before.rfind(kMoveToNewStack);
  if (call == before.npos || child == before.npos || child < call) return std::nullopt;
  return CloneCode{
      .system_call = first + call, .child = first + child, .end = tail + kCloneEnd.size() + 1};
}

}  // namespace profd::go
