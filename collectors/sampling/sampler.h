// The sampling source: perf events on every CPU, the BPF programs, the ring buffers and the
// in-kernel filter.
//
// One Sampler serves all sessions. A session takes a slot (one of 32), which selects processes in
// the kernel; sessions with equal event specs share one set of perf events, and no event is open
// while no session wants it. Not thread safe: the io thread owns it. The sink must outlive it.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectors/bpf/loss.h"
#include "collectors/bpf/sample.h"
#include "collectors/sampling/event_spec.h"
#include "collectors/unwinding/stats.h"
#include "collectors/unwinding/unwinding.h"
#include "formats/base/result.h"

namespace profd {

// Which processes a session takes; the criteria are ORed. `all` makes the others needless.
struct Target {
  bool all = false;
  std::vector<std::uint32_t> pids;   // in profd's PID namespace
  std::vector<std::string> comms;    // of the thread-group leader, exact, at most 15 bytes
  std::vector<std::uint32_t> uids;   // real uid
  std::vector<std::string> cgroups;  // paths below the cgroup v2 mount; with all cgroups below them
  bool follow_children =
      true;  // of pids: descendants alive now, and those born later from their fork on
  bool from_exec = false;  // of pids: nothing before their next exec

  // Only processes that a caller with these ids could read by ptrace's rule (all uids and gids
  // equal, dumpable).
  struct Credentials {
    std::uint32_t uid;
    std::uint32_t gid;
  };
  std::optional<Credentials> restrict_to;
};

// Index of a session in every sample's mask, 0 to 31.
using SessionSlot = unsigned;

// A session's counts in the kernel, since it started.
struct SlotLedger {
  std::uint64_t taken = 0;
  std::uint64_t received = 0;  // handed to the sink
  LossCounts lost{};
};

// The counts of all sessions, since the Sampler was opened. taken = sent + idle + filtered + lost.
struct SamplerLedger {
  std::uint64_t taken = 0;
  std::uint64_t sent = 0;
  std::uint64_t idle = 0;
  std::uint64_t filtered = 0;
  std::uint64_t outside_namespace = 0;  // of filtered
  std::uint64_t received = 0;  // handed to the sink; sent = received + malformed + waiting, drained
  std::uint64_t malformed = 0;     // records that failed their checks: our own mistake
  std::uint64_t waiting = 0;       // stacks that are to be unwound late
  LossCounts lost{};               // on the kernel side: neither malformed nor anything later
  std::uint64_t not_followed = 0;  // children of targets, not sampled: the list of targets was full
  std::uint64_t mapping_records = 0;
  std::uint64_t mapping_records_lost = 0;
  std::uint64_t process_records = 0;
  std::uint64_t process_records_lost = 0;
  std::uint64_t unmap_records = 0;
  std::uint64_t unmap_records_lost = 0;
  // What the perf events counted more than the programs took: ticks that the kernel skipped because
  // another BPF program ran on that CPU. An estimate, outside the identity.
  std::uint64_t skipped_estimate = 0;
  // CPUs that went and came back while they were sampled (perf_events.h), by set of events.
  std::uint64_t cpu_gaps = 0;
  std::uint64_t cpu_gap_ns = 0;
};

struct SamplerOptions {
  std::size_t ring_bytes = std::size_t{1} << 20;  // per CPU, a power of two
  std::span<const std::byte> bpf_object{};  // the ELF object to load; the built-in one when empty
  UnwindingOptions unwinding{};
};

class Sampler {
 public:
  // Checks the host, loads and verifies the programs, starts the parser (parser.h: the program must
  // be one that can be one). Opens no perf event.
  static Result<std::unique_ptr<Sampler>> open(const SamplerOptions& options, SampleSink& sink);

  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler();

  // Begins to take samples for a new session. Errors: no such process, no free slot, an event that
  // can't be opened. Restricted sessions leave the last 8 slots and 3 sets of events to others.
  // From here on mappings and processes are told to the sink anew: what it let go with an earlier
  // session is not missed.
  Result<SessionSlot> start(const EventSpec& event, const Target& target);

  // A new slot that takes a session of all processes over: each tick matches exactly one of both.
  // From here on `slot` only waits for its last samples, until stop(). Errors: no free slot.
  Result<SessionSlot> hand_over(SessionSlot slot);

  // Whether all samples of a slot have arrived or are lost. Of one that was handed over, so that
  // stop() has nothing to wait for.
  [[nodiscard]] bool is_settled(SessionSlot slot) const;

  // Ends a session: no tick matches it any more. Drains until all its samples have arrived or 1 s
  // has passed, stacks that wait for a table included, and returns its final counts. The slot is
  // free for reuse afterwards, unless some samples never arrived: they may still do so, and must
  // not be taken for another session's.
  SlotLedger stop(SessionSlot slot);

  // Hands every record that is in the rings to the sink. Returns how many samples there were.
  std::size_t drain();

  // Readable when user space should drain at once: a new file was mapped, a ring fills up, or a
  // table was made.
  [[nodiscard]] int wake_fd() const;

  // False once every process of a session by pids is gone, followed children included. True for
  // other targets.
  [[nodiscard]] bool has_targets(SessionSlot slot) const;

  [[nodiscard]] SlotLedger slot_ledger(SessionSlot slot) const;
  [[nodiscard]] SamplerLedger ledger() const;
  [[nodiscard]] UnwindStats unwind_stats() const;

  // The unwind rows of code that a process made at run time (unwinding.h).
  void set_jit_code_rows(const ProcessKey& process, std::uint32_t owner, std::uint32_t region,
                         std::string_view table);

  // From here on the sink is told when the process gives up memory in these spans, 8 at most; with
  // none, no longer. An error where the kernel can't tell.
  Result<void> watch_unmaps(const ProcessKey& process, std::span<const AddressRange> spans);

  // Files that no session needs any more are closed: call after a session's results are let go.
  void release_files();

 private:
  class Impl;
  explicit Sampler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace profd
