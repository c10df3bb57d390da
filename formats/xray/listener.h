// Calls and events in the order in which they are found, for a timeline.

#pragma once

#include <compare>
#include <cstdint>

#include "formats/xray/fdr_reader.h"

namespace profd::xray {

struct ThreadId {
  std::int32_t process = 0;
  std::int32_t thread = 0;

  friend auto operator<=>(const ThreadId&, const ThreadId&) = default;
};

// Times are ticks. They don't go back in a thread.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_enter(ThreadId thread, std::uint32_t function, std::uint64_t ticks) = 0;
  // Of the call that was entered last.
  virtual void on_argument(ThreadId thread, std::uint64_t value) = 0;
  virtual void on_exit(ThreadId thread, std::uint32_t function, std::uint64_t ticks) = 0;
  // The call around all others of the thread since `first_ticks`; the `outer`th that was found so.
  virtual void on_late_root(ThreadId thread, std::uint32_t function, std::uint64_t first_ticks,
                            std::uint64_t ticks, std::uint64_t outer) = 0;
  virtual void on_event(ThreadId thread, const Event& event) = 0;
};

}  // namespace profd::xray
