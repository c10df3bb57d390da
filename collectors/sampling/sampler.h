// The sampling source: perf events on every CPU, the BPF programs, the ring buffers and the filter
// in the kernel.
//
// One Sampler serves all sessions. A session takes a slot (one of 32), by which the kernel side
// selects processes. Sessions with equal event specs share one set of perf events, and no event is
// open that no session needs. Not thread safe: the io thread owns it.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectors/bpf/bpf_function.h"
#include "collectors/bpf/sample.h"
#include "collectors/host/uid_owners.h"
#include "collectors/interpreters/stats.h"
#include "collectors/off_cpu/block_ledger.h"
#include "collectors/off_cpu/ongoing_blocks.h"
#include "collectors/sampling/event_spec.h"
#include "collectors/unwinding/options.h"
#include "collectors/unwinding/stats.h"
#include "formats/base/address_range.h"
#include "formats/base/result.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

// Which processes a session samples: those that meet one of the criteria at least. With `all` the
// others are not needed.
struct Target {
  bool all = false;
  std::vector<std::uint32_t> pids;   // in profd's PID namespace
  std::vector<std::string> comms;    // of the thread-group leader, exact, at most 15 bytes
  std::vector<std::uint32_t> uids;   // real uid
  std::vector<std::string> cgroups;  // paths below the cgroup v2 mount; with all cgroups below them
  // Of pids: also their descendants, those alive now and those that fork later.
  bool follow_children = true;
  bool from_exec = false;  // of pids: nothing before their next exec
  // Of a window of continuous mode, which has 4 slots and an event set that no session can take. Of
  // an event that has_blocks(), those of 100 ms and more are certain, instead of 10 ms.
  bool is_window = false;

  std::optional<ProcessOwner> restrict_to;  // only processes that this user may read
};

// A session's counts, since it started.
struct SlotLedger {
  std::uint64_t taken = 0;
  // Passed to the sink; of a block, its start arrived. It is passed on when it has ended, or by
  // Sampler::deliver_ongoing_blocks().
  std::uint64_t received = 0;
  LossCounts lost{};
  std::optional<BlockLedger> blocks{};  // of an event that has_blocks()
};

// The counts of all sessions, since the Sampler was opened. taken = sent + idle + filtered + lost.
struct SamplerLedger {
  std::uint64_t taken = 0;
  std::uint64_t sent = 0;
  std::uint64_t idle = 0;
  std::uint64_t filtered = 0;
  std::uint64_t outside_namespace = 0;  // of filtered
  // Passed to the sink. Once drained, sent = received + waiting + malformed samples.
  std::uint64_t received = 0;
  std::uint64_t malformed = 0;  // records of any kind that failed their checks: a bug of profd
  std::uint64_t waiting = 0;    // samples whose stack waits for deferred unwinding
  LossCounts lost{};            // in the kernel: neither malformed nor anything later
  // Children of targets, not sampled: their user, all users or all sessions had too many targets.
  std::uint64_t not_followed = 0;
  std::uint64_t mapping_records = 0;
  std::uint64_t mapping_records_lost = 0;
  std::uint64_t mapping_records_limited = 0;  // over what their users may cost
  std::uint64_t process_records = 0;
  std::uint64_t process_records_lost = 0;
  std::uint64_t unmap_records = 0;
  std::uint64_t unmap_records_lost = 0;
  // What the perf events counted more than the programs took: ticks that the kernel skipped because
  // another BPF program ran on that CPU. An estimate, outside the identity.
  std::uint64_t skipped_estimate = 0;
  // CPUs that went offline and came back while they were sampled (perf_events.h), by event set.
  std::uint64_t cpu_gaps = 0;
  std::uint64_t cpu_gap_ns = 0;
};

// The programs that sample blocks, of all sessions since the first one that needed them.
struct OffCpuStats {
  std::uint64_t threads_watched = 0;  // that ever were
  std::uint64_t threads_refused = 0;  // not watched: the kernel had no memory
  std::uint64_t walks = 0;
  std::uint64_t walks_by_chance = 0;  // of these: a sample stands for several blocks
  std::uint32_t scale = 0;            // of the chances now (bpf/block_choice.h)
  std::uint64_t ends_lost = 0;
  std::uint64_t open_blocks = 0;  // now, and the memory that they take
  std::uint64_t open_bytes = 0;
};

struct SamplerOptions {
  std::size_t ring_bytes = std::size_t{1} << 20;  // per CPU, a power of two
  std::span<const std::byte> bpf_object{};  // the ELF object to load; the built-in one when empty
  UnwindingOptions unwinding{};
  UidOwners owners{};  // whose the uids of restricted sessions are
  // Gets the code objects of interpreted frames, and must outlive the Sampler. Null: stacks have
  // native frames only.
  InterpretedCodes* codes = nullptr;
};

// An interface, since tests of what uses a Sampler bring one of their own.
class Sampler {
 public:
  // Checks the host, loads and verifies the programs, and starts the parser (parser.h says what the
  // program must be able to do for that). Opens no perf event. `sink` must outlive the Sampler.
  static Result<std::unique_ptr<Sampler>> open(const SamplerOptions& options, SampleSink& sink);

  Sampler() = default;
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  virtual ~Sampler() = default;

  // Begins to take samples for a new session: at once, or, of pids, from has_begun() on. Errors: no
  // free slot, an event that can't be opened. Restricted sessions have 16 slots and 4 event sets at
  // most, other sessions 28 and 7; session_slots.h and event_sets.h say how users share theirs. The
  // kernel side then reports all mappings and processes again, since the sink may have forgotten
  // them after an earlier session.
  virtual Result<SessionSlot> start(const EventSpec& event, const Target& target) = 0;

  // To be called after start() until it is true, every ms or so: continues to add the processes of
  // the target, which takes some ms where it has pids, and to load the programs of an event that
  // has_blocks(), which takes some 100 ms. Errors: no such process, too many processes, a kernel
  // that cannot run these programs; then the slot is not the session's any more.
  [[nodiscard]] virtual Result<bool> has_begun(SessionSlot slot) = 0;

  // Moves a window to a new slot: each tick matches exactly one of both, the old one as after
  // end_matching(). Errors: no free slot.
  virtual Result<SessionSlot> move_to_new_slot(SessionSlot slot) = 0;

  // No tick matches the slot from now on.
  virtual void end_matching(SessionSlot slot) = 0;

  // Of a session that has begun, of an event that has_blocks(): asks the kernel for the blocks that
  // are open now. That takes some ms, or 100 with 100,000 threads: drain() passes the list on,
  // until is_listing_blocks() is false. While one is made, and for kListInterval after it was asked
  // for, the call does nothing. The functions below have the last list. Without one, as of a
  // session that was ended, there are no such blocks.
  virtual void list_blocks(SessionSlot /*slot*/) {}
  [[nodiscard]] virtual bool is_listing_blocks(SessionSlot /*slot*/) const { return false; }
  // What the blocks that are still open count up to that time, beside all that the sink has. To be
  // called between a drain and the next one.
  [[nodiscard]] virtual OngoingBlocks ongoing_blocks(SessionSlot /*slot*/) const { return {}; }
  // Passes the same to the sink, for some milliseconds at most: from then on, the session counts
  // the rest of these blocks. True: there are more.
  virtual bool deliver_ongoing_blocks(SessionSlot /*slot*/) { return false; }
  // The list visits all threads of the host.
  static constexpr std::chrono::milliseconds kListInterval{500};

  // Whether all samples of a slot that no tick matches have arrived or are lost, and the files of
  // their mappings are open; of an event that has_blocks(), also the list of those that are open,
  // for which drain() asks.
  [[nodiscard]] virtual bool is_settled(SessionSlot slot) const = 0;

  // Ends a session and returns its final counts; call it when the slot is settled after
  // end_matching(), or to wait no longer. What has not arrived by now is delivered as it is
  // (deferred stacks), or may arrive later: then the slot is not used again until it has, since
  // that must not be counted for another session.
  virtual SlotLedger stop(SessionSlot slot) = 0;

  // Passes the records that the rings hold to the sink, for some milliseconds at most. True: there
  // may be more.
  virtual bool drain() = 0;

  // Readable when drain() should be called at once: a new file was mapped, a process ran anonymous
  // code for the first time, a stack waits for a table, a ring is half full, or an unwind table is
  // ready.
  [[nodiscard]] virtual int wake_fd() const = 0;

  // False once every process of a session by pids has exited, followed children included. True for
  // other targets.
  [[nodiscard]] virtual bool has_targets(SessionSlot slot) = 0;

  [[nodiscard]] virtual SlotLedger slot_ledger(SessionSlot slot) const = 0;
  [[nodiscard]] virtual SamplerLedger ledger() = 0;

  // The functions of the BPF programs that are loaded now, by address. None: they cannot be listed.
  [[nodiscard]] virtual std::vector<BpfFunction> bpf_functions() const = 0;
  [[nodiscard]] virtual UnwindStats unwind_stats() const = 0;
  [[nodiscard]] virtual InterpreterStats interpreter_stats() { return {}; }
  // The files with an interpreter that is known.
  [[nodiscard]] virtual std::map<FileKey, profd_runtime> interpreters() const { return {}; }
  // The files with an interpreter whose frames are not read, and why.
  [[nodiscard]] virtual InterpreterFiles refused_interpreters() const { return {}; }
  // None: no session has sampled blocks.
  [[nodiscard]] virtual std::optional<OffCpuStats> off_cpu_stats() const { return std::nullopt; }

  // Whether what is known of the process's code is needed for a block that has not ended, whose
  // sample comes later.
  [[nodiscard]] virtual bool needs(const ProcessKey& /*process*/) const { return false; }

  // Sets the unwind rows of a process's JIT code, which `encode` makes (unwinding.h).
  virtual void set_jit_code_rows(const ProcessKey& process, std::uint32_t owner, std::uint32_t area,
                                 EncodeTable encode) = 0;

  // From now on, or some ms later, the sink gets an event when the process unmaps memory in these
  // ranges, at most 8; none end that. Errors: the kernel cannot report it, which a later call may
  // find.
  virtual Result<void> watch_unmaps(const ProcessKey& process,
                                    std::span<const AddressRange> ranges) = 0;

  // Closes the files that no session needs. Call it after the results of a session are released.
  virtual void release_files() = 0;

  // Detaches the programs that no session has needed for a minute, and asks for the code of
  // interpreted frames that was not announced. To be called every second or so, also while nothing
  // is sampled.
  virtual void detach_unneeded_hooks() = 0;
};

}  // namespace profd
