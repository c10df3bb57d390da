// The names by which profiles of blocks are known: the daemon writes them, profctl reads them.
// docs/api.md explains them.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace profd {

// The events, which are also the types of the values in nanoseconds, with "_" for "-".
inline constexpr std::string_view kOffCpuEvent = "off-cpu";
inline constexpr std::string_view kRunnableEvent = "runnable";
inline constexpr std::string_view kWallEvent = "wall";

// profile.proto: sample types {blocks, count} and {off_cpu, nanoseconds}; of `wall`
// {samples, count} and {wall, nanoseconds}. The default and the period's type are the second one,
// and the period is 1.
inline constexpr std::string_view kBlocksType = "blocks";
inline constexpr std::string_view kOffCpuType = "off_cpu";
inline constexpr std::string_view kRunnableType = "runnable";
inline constexpr std::string_view kWallType = "wall";

// Keys of labels; with `thread`, which all events have on request.
inline constexpr std::string_view kStateLabel = "state";
inline constexpr std::string_view kWaitLabel = "wait";
inline constexpr std::string_view kOngoingLabel = "ongoing";  // "yes", or the label is not there

// Key and unit of a numeric label: how long the longest one of the sample's blocks lasted. Samples
// do not differ in it: of those that are added up, the largest stays.
inline constexpr std::string_view kLongestLabel = "longest";
inline constexpr std::string_view kLongestUnit = "nanoseconds";

// By profd_block_state. "running" is a tick in a profile of `wall`.
inline constexpr std::array<std::string_view, 5> kBlockStates = {"running", "S", "D", "stopped",
                                                                 "runnable"};

// By the kernel function behind the scheduler. kNone: runnable, running and stopped.
enum class Wait : std::uint8_t {
  kNone,
  kFutex,
  kEpoll,
  kPoll,  // poll and select
  kSleep,
  kPipe,
  kSocket,
  kDisk,
  kPageFault,
  kLock,  // of the kernel
  kChild,
  kOther,
};
inline constexpr std::array<std::string_view, 12> kWaitKinds = {
    "-",      "futex", "epoll",      "poll", "sleep", "pipe",
    "socket", "disk",  "page-fault", "lock", "child", "other"};

// Frames without code. Those of `wall` are outermost, so that CPU and waits are apart.
inline constexpr std::string_view kNotTakenFrame = "[stack not taken]";
inline constexpr std::string_view kBeforeStartFrame = "[blocked before the start]";
inline constexpr std::string_view kOnCpuFrame = "[on CPU]";
inline constexpr std::string_view kBlockedFrame = "[blocked]";
inline constexpr std::string_view kRunnableFrame = "[runnable]";

}  // namespace profd
