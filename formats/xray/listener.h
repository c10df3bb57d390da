// Receives calls and events in the order of the records, for a timeline.

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

// Times are ticks, which do not go back within a thread.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_enter(ThreadId thread, std::uint32_t function, std::uint64_t ticks) = 0;
  // An argument of the call that was entered last.
  virtual void on_argument(ThreadId thread, std::uint64_t value) = 0;
  virtual void on_exit(ThreadId thread, std::uint32_t function, std::uint64_t ticks) = 0;
  // A call that had begun before the thread's records, at `first_ticks`, and contains all calls
  // since. It is the `outer`th such call of the segment.
  virtual void on_late_root(ThreadId thread, std::uint32_t function, std::uint64_t first_ticks,
                            std::uint64_t ticks, std::uint64_t outer) = 0;
  virtual void on_event(ThreadId thread, const Event& event) = 0;
};

}  // namespace profd::xray
