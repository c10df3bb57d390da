// Measures the length of a tick of the records' clock. The app runs on the same host, so its clock
// is measured here and no value of the app is used.

#pragma once

#include <cstdint>

#include "collectors/xray/app/wire.h"

namespace profd::xray {

class TickRate {
 public:
  // Starts the measurement.
  TickRate();

  // Waits until the measurement is long enough to be exact to 1e-5.
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
