#include "daemon/profiles/counted_samples.h"

#include <algorithm>
#include <array>
#include <string>

#include "daemon/profiles/microseconds.h"
#include "formats/profile/block_names.h"

namespace profd {
namespace {

constexpr std::int64_t kNsOfMicrosecond = 1000;

// Then the last value is the time.
bool has_times_of_blocks(const PprofProfile& profile) {
  if (profile.sample_types().empty()) return false;
  const std::string& type = profile.sample_types().back().type;
  return type == kOffCpuType || type == kRunnableType || type == kWallType;
}

}  // namespace

CountedSamples::CountedSamples(const PprofProfile& profile)
    : profile_(profile), are_times_(has_times_of_blocks(profile)) {}

std::uint64_t CountedSamples::operator[](std::size_t sample) const {
  const auto values = profile_.values(sample);
  const std::int64_t count = are_times_ ? values.back() / kNsOfMicrosecond : values.front();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0));
}

void round_to_microseconds(PprofProfile& profile) {
  if (!has_times_of_blocks(profile)) return;
  Microseconds all;
  for (std::size_t i = 0; i < profile.samples().size(); ++i) {
    const std::int64_t ns = profile.values(i).back();
    const auto us = static_cast<std::int64_t>(all.add(static_cast<std::uint64_t>(ns)));
    const PprofSample sample = profile.samples()[i];
    profile.add_sample(sample, std::array<std::int64_t, 2>{0, us * kNsOfMicrosecond - ns});
  }
}

}  // namespace profd
