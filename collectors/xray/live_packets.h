// The packets between the daemon and a follower, the process that follows an app: plain structs
// over the child's socket pair (collectors/sandbox/packets.h). The daemon checks them like any
// input.

#pragma once

#include <array>
#include <cstdint>

#include "collectors/sandbox/packets.h"
#include "collectors/xray/function_choice.h"
#include "formats/xray/detach_reason.h"

namespace profd::xray {

enum class Command : std::uint32_t {
  kFollow = 1,  // the first packet, with two descriptors: the program's file, and the end of a
                // socket pair over which the app's connection comes
  kShow,        // send a result of the calls so far
  kFinish,      // detach from the app and send the last result
};

struct CommandPacket {
  Command command{};
  std::uint32_t session = 0;        // kFollow; not 0
  std::uint32_t pattern_bytes = 0;  // kFollow; 0: all functions
  std::uint64_t memory_bytes = 0;   // kFollow; limit of the memory that the follower allocates
  std::array<char, kMaxPatternBytes> pattern{};
};

enum class EventKind : std::uint32_t {
  kProgress = 1,  // the counts have changed
  kDetached,      // the app takes part no more: see `reason` and `error`
  kResult,        // a result is there, in a sealed memfd (live_result.h)
  kFailed,        // the last packet: there is no result, see `reason` and `error`
};

struct EventPacket {
  EventKind kind{};
  std::uint32_t functions = 0;  // of the program
  std::uint32_t patched = 0;
  DetachReason reason{};  // kAsAsked: the app has not detached
  std::uint64_t records = 0;
  std::uint64_t dropped = 0;  // records that the app could not write
  sandbox::Answer error;
};

}  // namespace profd::xray
