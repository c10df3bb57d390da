#include "daemon/samples/snapshot.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace profd {
namespace {

// Their places: sorting the samples themselves would move each of them many times.
template <class Samples>
auto by_pid_and_start(Samples& samples) {
  std::vector<decltype(&*samples.processes.begin())> places;
  places.reserve(samples.processes.size());
  for (auto& entry : samples.processes) {
    const bool is_refused = entry.second.stacks.stacks().empty();  // its first stack was
    if (!is_refused) places.push_back(&entry);
  }
  std::ranges::sort(places, {}, [](const auto* place) {
    const ProcessKey& key = place->first;
    return std::tuple(key.tgid, key.start_ns, key.exec_id);
  });
  return places;
}

std::shared_ptr<const ProcessImage> image_of(const ProcessKey& key, ProcessTable& processes) {
  std::shared_ptr<const ProcessImage> image = processes.share(key);
  return image ? image : std::make_shared<const ProcessImage>();
}

void add_counts(SessionSnapshot& snapshot, const SessionSamples& samples) {
  snapshot.samples = samples.samples;
  snapshot.refused = samples.refused;
  snapshot.refused_ns = samples.refused_ns;
  snapshot.tick_ns = samples.tick_ns;
  snapshot.period_sum = samples.period_sum;
  snapshot.bytes = samples.bytes;
  if (samples.times) snapshot.times_until = samples.times->until;
}

}  // namespace

void add_samples(SessionSnapshot& snapshot, SessionSamples&& samples, ProcessTable& processes) {
  add_counts(snapshot, samples);
  snapshot.threads = std::move(samples.threads);
  snapshot.charged = std::move(samples.charged);
  const auto places = by_pid_and_start(samples);
  snapshot.processes.reserve(places.size());
  for (auto* const place : places) {
    snapshot.processes.push_back({.key = place->first,
                                  .image = image_of(place->first, processes),
                                  .samples = std::move(place->second),
                                  .jit = std::nullopt});
  }
}

void add_copy(SessionSnapshot& snapshot, const SessionSamples& samples, ProcessTable& processes) {
  add_counts(snapshot, samples);
  snapshot.threads = samples.threads;
  const auto places = by_pid_and_start(samples);
  snapshot.processes.reserve(places.size());
  for (const auto* const place : places) {
    const ProcessSamples& process = place->second;
    snapshot.processes.push_back({.key = place->first,
                                  .image = image_of(place->first, processes),
                                  .samples = {.stacks = process.stacks.copy_to_read(),
                                              .jit = process.jit,
                                              .times = process.times,
                                              .owner = process.owner},
                                  .jit = std::nullopt});
  }
}

}  // namespace profd
