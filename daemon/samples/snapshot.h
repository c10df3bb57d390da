// All that is needed to write a session's profiles, cut loose from the io thread: a value that is
// moved to the worker, and moved back when the profiles could not be stored.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectors/sampling/event_spec.h"
#include "collectors/sampling/sampler.h"
#include "daemon/samples/aggregator.h"
#include "daemon/samples/jit_samples.h"
#include "daemon/samples/process_table.h"

namespace profd {

struct ProcessSnapshot {
  ProcessKey key;
  ProcessImage image;
  ProcessSamples samples;
  std::optional<JitSamples> jit{};  // of its timed stacks, once they are resolved
};

struct SessionSnapshot {
  std::string session;  // its id
  std::chrono::system_clock::time_point started;
  std::chrono::nanoseconds lasted{};
  EventSpec event;
  // Kernel addresses are not the caller's to see: each run of kernel frames is one, `[kernel]`.
  bool hide_kernel = false;
  std::vector<ProcessSnapshot> processes;  // those with samples, by pid and start
  SlotLedger ledger;
  std::uint64_t samples = 0;
  std::uint64_t refused = 0;  // by the memory limit
  std::uint64_t period_sum = 0;
  std::uint64_t bytes = 0;  // held, an upper bound
};

// Fills in what the samples say; each process with the image that is known of it.
void add_samples(SessionSnapshot& snapshot, SessionSamples&& samples,
                 const ProcessTable& processes);

}  // namespace profd
