#include "ctl/views/time_kind.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "formats/profile/block_names.h"

namespace profd {
namespace {

// By TimeKind.
constexpr std::array<TimeKindNames, 4> kTimeKindNames = {
    TimeKindNames{.event = "cpu",
                  .type = "cpu",
                  .member = "cpu_ns",
                  .count_type = "samples",
                  .noun = "sample",
                  .behind = "of CPU time"},
    TimeKindNames{.event = kOffCpuEvent,
                  .type = kOffCpuType,
                  .member = "off_cpu_ns",
                  .count_type = "blocks",
                  .noun = "block",
                  .behind = "off the CPU"},
    TimeKindNames{.event = kRunnableEvent,
                  .type = kRunnableType,
                  .member = "runnable_ns",
                  .count_type = "blocks",
                  .noun = "block",
                  .behind = "of waiting for a CPU"},
    TimeKindNames{.event = kWallEvent,
                  .type = kWallType,
                  .member = "wall_ns",
                  .count_type = "samples",
                  .noun = "sample",
                  .behind = "of wall-clock time"}};

}  // namespace

const TimeKindNames& kind_names(TimeKind kind) {
  return kTimeKindNames.at(static_cast<std::size_t>(kind));
}

std::optional<TimeKind> time_kind_of_type(std::string_view type) {
  const auto* const known = std::ranges::find(kTimeKindNames, type, &TimeKindNames::type);
  if (known == kTimeKindNames.end()) return std::nullopt;
  return static_cast<TimeKind>(known - kTimeKindNames.begin());
}

TimeKind time_kind_of_event(std::string_view event) {
  const auto* const known = std::ranges::find(kTimeKindNames, event, &TimeKindNames::event);
  return known == kTimeKindNames.end() ? TimeKind::kCpu
                                       : static_cast<TimeKind>(known - kTimeKindNames.begin());
}

}  // namespace profd
