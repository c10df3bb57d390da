#include "formats/interpreters/runtime.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace profd {
namespace {

constexpr std::uint64_t kMaxFileOffset = std::uint64_t{1} << 32;

bool has_known_slots(const profd_runtime& runtime) {
  const std::span forms(runtime.slot_form);
  return std::ranges::all_of(forms, [](auto form) { return form < PROFD_SLOT_FORM_COUNT; }) &&
         std::ranges::any_of(forms, [](auto form) { return form != PROFD_SLOT_NONE; });
}

bool is_unused(const profd_runtime& runtime) {
  constexpr profd_runtime kUnused{};
  return std::memcmp(&runtime, &kUnused, sizeof runtime) == 0;
}

}  // namespace

bool is_valid(const FoundRuntime& found) {
  if (static_cast<std::size_t>(found.verdict) >= kRuntimeVerdictCount) return false;
  if (found.kind >= PROFD_RUNTIME_KIND_COUNT || found.version > 0xffffff) return false;
  if ((found.verdict == RuntimeVerdict::kNone) != (found.kind == PROFD_RUNTIME_NONE)) return false;
  const profd_runtime& runtime = found.runtime;
  if (found.verdict != RuntimeVerdict::kKnown) return is_unused(runtime);
  const auto is_within_files = [](const profd_loop_part& part) {
    return std::uint64_t{part.start} + part.bytes <= kMaxFileOffset;
  };
  return runtime.kind == found.kind && runtime.layout != 0 && runtime.layout < PROFD_MAX_LAYOUTS &&
         runtime.libc < PROFD_LIBC_COUNT && has_known_slots(runtime) &&
         std::ranges::all_of(runtime.loop, is_within_files);
}

std::string_view name_of_runtime(std::uint8_t kind) {
  switch (kind) {
    case PROFD_RUNTIME_PYTHON:
      return "Python";
    case PROFD_RUNTIME_PHP:
      return "PHP";
    default:
      return {};
  }
}

std::string_view loop_name(std::uint8_t kind) {
  switch (kind) {
    case PROFD_RUNTIME_PYTHON:
      return "_PyEval_EvalFrameDefault";
    case PROFD_RUNTIME_PHP:
      return "execute_ex";
    default:
      return {};
  }
}

bool is_loop(const profd_runtime& runtime, std::uint64_t file_offset) {
  return std::ranges::any_of(runtime.loop, [file_offset](const profd_loop_part& part) {
    return file_offset >= part.start && file_offset - part.start < part.bytes;
  });
}

std::string text_of(const FoundRuntime& found) {
  std::string text;
  if (found.kind == PROFD_RUNTIME_PYTHON) text = "python";
  if (found.kind == PROFD_RUNTIME_PHP) text = "php";
  if (text.empty() || found.version == 0) return text;
  text += ' ' + std::to_string(found.version >> 16 & 0xff) + '.' +
          std::to_string(found.version >> 8 & 0xff);
  const std::uint32_t patch = found.version & 0xff;
  if (patch != kUnknownPatch) text += '.' + std::to_string(patch);
  return text;
}

}  // namespace profd
