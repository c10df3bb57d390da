// When a host sends a window, so that the hosts of a fleet do not all send at the same second:
// windows end at the same second on each.
//
// A host has its turn at a place in the length of a window that its name gives, always the same
// one. The profiles of a window follow each other over a tenth of that length, since the load of
// 10,000 hosts in a second would still vary by a quarter if each sent all of its window at once
// (docs/fleet.md). A window that is late, as all are after an outage, waits for neither.

#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

namespace profd {

// In [0, 1), by a hash of the name.
[[nodiscard]] double send_phase(std::string_view host);

struct SendTurn {
  using Time = std::chrono::sys_time<std::chrono::nanoseconds>;

  Time end;  // of the window
  std::chrono::nanoseconds length{};
  double phase = 0;

  // Until its turn; 0: it is there.
  [[nodiscard]] std::chrono::milliseconds wait(Time now) const;
  // Between two of `profiles`, of which the first is sent at `now`; 0: the window is late.
  [[nodiscard]] std::chrono::milliseconds pause(Time now, std::size_t profiles) const;
};

// Of a window by its header. A longer one than ten minutes counts as one of that length.
[[nodiscard]] SendTurn send_turn(SendTurn::Time start, std::chrono::nanoseconds length,
                                 double phase);

}  // namespace profd
