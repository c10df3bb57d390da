// All that is needed to write a session's profiles: a value that moves from the io thread to the
// worker, and back when the profiles could not be stored.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectors/bpf/bpf_function.h"
#include "collectors/interpreters/codes.h"
#include "collectors/interpreters/runtimes.h"
#include "collectors/sampling/event_spec.h"
#include "collectors/sampling/sampler.h"
#include "daemon/samples/aggregator.h"
#include "daemon/samples/jit_samples.h"
#include "daemon/samples/process_table.h"

namespace profd {

struct ProcessSnapshot {
  ProcessKey key;
  // Never null. Shared with the process table, and so never changed.
  std::shared_ptr<const ProcessImage> image = std::make_shared<const ProcessImage>();
  ProcessSamples samples;
  std::optional<JitSamples> jit{};  // of its timed stacks, once they are named
  // The code of its interpreted frames, as it was known when the samples were taken; null: none.
  std::shared_ptr<const InterpretedTable> interpreted{};
  // Of all processes: the files with an interpreter whose frames are not read; null: none.
  std::shared_ptr<const InterpreterFiles> refused_interpreters{};
};

struct SessionSnapshot {
  std::string session;  // its id
  std::chrono::system_clock::time_point started;
  std::chrono::nanoseconds started_monotonic{};  // of a window: the same by CLOCK_MONOTONIC
  std::chrono::nanoseconds lasted{};
  EventSpec event;
  // The caller may not see kernel addresses: each run of kernel frames becomes one frame,
  // `[kernel]`.
  bool hide_kernel = false;
  std::vector<ProcessSnapshot> processes;    // those with samples, by pid and start
  std::vector<BpfFunction> bpf_functions{};  // when the samples ended
  // The files with an interpreter (Sampler::interpreters): parts of a loop may have no symbol.
  std::map<FileKey, profd_runtime> interpreters{};
  std::optional<ThreadNames> threads{};        // of the stacks; none: threads are not distinguished
  std::optional<std::uint32_t> times_until{};  // KeptTimes::until; none: times are not kept
  SlotLedger ledger;
  std::uint64_t samples = 0;
  std::uint64_t refused = 0;  // by the memory limit
  // SessionSamples::refused_ns and ::tick_ns, of an event that has_blocks()
  std::uint64_t refused_ns = 0;
  std::uint64_t tick_ns = 0;
  std::uint64_t period_sum = 0;
  std::uint64_t bytes = 0;  // of memory, an upper bound
  // What the samples take of the budget of users, until they are destroyed; null: nothing.
  std::shared_ptr<ChargedBytes> charged{};
};

// Fills in the samples, and the image of each process as it is now. The time grows with the number
// of processes alone.
void add_samples(SessionSnapshot& snapshot, SessionSamples&& samples, ProcessTable& processes);

// The same of a session that goes on. The words of the stacks and the images are shared; what is
// copied is about 40 bytes for each stack. `snapshot.charged` is the caller's to set.
void add_copy(SessionSnapshot& snapshot, const SessionSamples& samples, ProcessTable& processes);

}  // namespace profd
