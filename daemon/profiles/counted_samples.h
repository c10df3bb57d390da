// The samples of a profile with names as session.json counts them: their number, or, where they
// have times of blocks, microseconds. Used on a worker.

#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/profile/pprof_profile.h"

namespace profd {

class CountedSamples {
 public:
  // `profile` must outlive *this.
  explicit CountedSamples(const PprofProfile& profile);

  // What the sample at a place of profile.samples() counts.
  [[nodiscard]] std::uint64_t operator[](std::size_t sample) const;

 private:
  const PprofProfile& profile_;
  bool are_times_;
};

// Makes the time of each block whole microseconds: what is left of one counts in the next one. Then
// sums of any of them are exact in session.json too. Nothing, where samples have no such times.
void round_to_microseconds(PprofProfile& profile);

}  // namespace profd
