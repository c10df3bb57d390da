#include "daemon/samples/snapshot.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace profd {

void add_samples(SessionSnapshot& snapshot, SessionSamples&& samples,
                 const ProcessTable& processes) {
  snapshot.samples = samples.samples;
  snapshot.refused = samples.refused;
  snapshot.period_sum = samples.period_sum;
  snapshot.bytes = samples.bytes;
  snapshot.threads = std::move(samples.threads);
  for (auto& [key, process] : samples.processes) {
    if (process.stacks.stacks().empty()) continue;  // its first stack was refused
    const ProcessImage* image = processes.find(key);
    snapshot.processes.push_back({.key = key,
                                  .image = image != nullptr ? *image : ProcessImage{},
                                  .samples = std::move(process),
                                  .jit = std::nullopt});
  }
  std::ranges::sort(snapshot.processes, {}, [](const ProcessSnapshot& process) {
    return std::tuple(process.key.tgid, process.key.start_ns, process.key.exec_id);
  });
}

}  // namespace profd
