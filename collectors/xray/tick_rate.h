// How long a tick of the records' clock is. The app runs on this host, so its clock is ours to
// measure: nothing is taken from it.

#pragma once

#include <cstdint>

#include "collectors/xray/app/wire.h"

namespace profd::xray {

class TickRate {
 public:
  // Measures from now on.
  TickRate();

  // Nanoseconds; waits until what was measured is long enough to be exact to 1e-5.
  [[nodiscard]] double ns_per_tick(profd_xray_clock clock) const;

 private:
  struct Moment {
    std::uint64_t ticks = 0;
    std::uint64_t ns = 0;
  };
  static Moment now();

  Moment start_;
};

}  // namespace profd::xray
