#include "daemon/samples/snapshot.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace profd {
namespace {

struct ProcessPlace {
  ProcessKey key;
  ProcessSamples* samples = nullptr;
};

// Sorting the samples themselves would move each of them many times.
std::vector<ProcessPlace> sorted_places(SessionSamples& samples) {
  std::vector<ProcessPlace> places;
  places.reserve(samples.processes.size());
  for (auto& [key, process] : samples.processes) {
    if (process.stacks.stacks().empty()) continue;  // its first stack was refused
    places.push_back({key, &process});
  }
  std::ranges::sort(places, {}, [](const ProcessPlace& place) {
    return std::tuple(place.key.tgid, place.key.start_ns, place.key.exec_id);
  });
  return places;
}

}  // namespace

void add_samples(SessionSnapshot& snapshot, SessionSamples&& samples, ProcessTable& processes) {
  snapshot.samples = samples.samples;
  snapshot.refused = samples.refused;
  snapshot.period_sum = samples.period_sum;
  snapshot.bytes = samples.bytes;
  snapshot.threads = std::move(samples.threads);
  const std::vector<ProcessPlace> places = sorted_places(samples);
  snapshot.processes.reserve(places.size());
  for (const auto& [key, process] : places) {
    std::shared_ptr<const ProcessImage> image = processes.share(key);
    if (!image) image = std::make_shared<const ProcessImage>();
    snapshot.processes.push_back({.key = key,
                                  .image = std::move(image),
                                  .samples = std::move(*process),
                                  .jit = std::nullopt});
  }
}

}  // namespace profd
