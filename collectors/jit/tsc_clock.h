// The processor's time stamp counter as CLOCK_MONOTONIC, for runtimes that stamp their records with
// the counter.

#pragma once

#include <optional>

#include "formats/base/unique_fd.h"
#include "formats/jit/jitdump_reader.h"

namespace profd {

class TscClock {
 public:
  TscClock();
  TscClock(const TscClock&) = delete;
  TscClock& operator=(const TscClock&) = delete;
  ~TscClock();

  // Valid for counts of about the last hour, since the monotonic clock is slewed and the counter is
  // not. None where the kernel does not use the counter for its own clock.
  [[nodiscard]] std::optional<TscConversion> conversion() const;

 private:
  UniqueFd event_;
  void* page_ = nullptr;  // a perf_event_mmap_page
};

}  // namespace profd
