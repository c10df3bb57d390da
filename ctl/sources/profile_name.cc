#include "ctl/sources/profile_name.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace profd {
namespace {

// PID_MAX_LIMIT of Linux. Dates are larger.
constexpr std::uint32_t kMaxPid = 4'194'304;

// A number as profd writes it. None: other text, such as that of a counter with zeros in front.
std::optional<std::uint32_t> pid_of_text(std::string_view text) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  const bool is_number = error == std::errc() && at == end && !text.starts_with('0');
  return is_number && number <= kMaxPid ? std::optional(number) : std::nullopt;
}

// The text behind the last dot becomes `last`. False: nothing is in front of a dot.
bool split_last(std::string_view name, std::string_view& rest, std::string_view& last) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  rest = name.substr(0, dot);
  last = name.substr(dot + 1);
  return true;
}

// None: the name ends in no pid.
std::optional<ProfileOwner> owner_of_stem(std::string_view stem) {
  std::string_view comm;
  std::string_view text;
  if (!split_last(stem, comm, text)) return std::nullopt;
  auto pid = pid_of_text(text);
  if (!pid) return std::nullopt;
  // "sh.4711.2" is the second one of pid 4711, but the command of "python3.11.4711" has a number
  // too: the pid is the larger one.
  std::string_view shorter;
  if (split_last(comm, shorter, text)) {
    const auto before = pid_of_text(text);
    if (before && *before > *pid && *pid > 1) {
      pid = before;
      comm = shorter;
    }
  }
  return ProfileOwner{.pid = *pid, .comm = std::string(comm)};
}

}  // namespace

ProfileOwner owner_of_profile_name(std::string_view file_name) {
  for (const std::string_view end : {".xray.prof", ".xray-calls.prof", ".prof"}) {
    if (!file_name.ends_with(end)) continue;
    auto owner = owner_of_stem(file_name.substr(0, file_name.size() - end.size()));
    if (owner) return std::move(*owner);
  }
  return {.pid = 0, .comm = std::filesystem::path(file_name).stem().string()};
}

}  // namespace profd
