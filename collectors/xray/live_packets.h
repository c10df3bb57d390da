// What the daemon and the process that follows an app send to each other: plain structs over a
// child's socket pair (collectors/sandbox/packets.h), which the daemon checks like any input.

#pragma once

#include <array>
#include <cstdint>

#include "collectors/sandbox/packets.h"
#include "collectors/xray/function_choice.h"
#include "formats/xray/detach_reason.h"

namespace profd::xray {

enum class Order : std::uint32_t {
  kFollow = 1,  // the first, with two descriptors: the program's file and the app's connection
  kShow,        // a result of what there is so far
  kFinish,      // the app is let go, and the result is the last
};

struct OrderPacket {
  Order order{};
  std::uint32_t session = 0;        // kFollow; not 0
  std::uint32_t pattern_bytes = 0;  // kFollow; 0: all functions
  std::uint64_t memory_bytes = 0;   // kFollow; what may be allocated
  std::array<char, kMaxPatternBytes> pattern{};
};

enum class News : std::uint32_t {
  kProgress = 1,  // the counts have changed
  kAppIsOut,      // the app takes part no more: `end` and `error` tell why
  kResult,        // with a sealed memfd (live_result.h)
  kFailed,        // `end` and `error` tell; the last
};

struct NewsPacket {
  News news{};
  std::uint32_t functions = 0;  // that the program has
  std::uint32_t patched = 0;
  DetachReason end{};  // kAsAsked until it is out
  std::uint64_t records = 0;
  std::uint64_t dropped = 0;
  sandbox::Answer error;
};

}  // namespace profd::xray
