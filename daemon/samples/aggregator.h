// The SampleSink: every sample becomes one more of a stack, in each session that wants it.
//
// One hash a sample, one look-up of the process and one of the stack a session; about 100 ns in
// all. On the io thread. Memory is bounded by session: over its limit, samples of stacks that are
// known still count and others are refused, by number.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/bpf/sample.h"
#include "daemon/samples/jit_log.h"
#include "daemon/samples/process_table.h"
#include "daemon/samples/stack_table.h"
#include "daemon/samples/unwind_tally.h"

namespace profd {

class JitNaming;

// What one process image gave to one session.
struct ProcessSamples {
  StackTable stacks;
  JitLog jit;                         // of the stacks that may have frames in code made at run time
  std::optional<ProcessOwner> owner;  // of all its samples; none: nobody's, or not always the same
};

// A value: copied for a dump, moved out at the end.
struct SessionSamples {
  boost::unordered_flat_map<ProcessKey, ProcessSamples, ProcessKeyHash> processes;
  std::uint64_t samples = 0;     // in the stacks
  std::uint64_t refused = 0;     // lost to the memory limit
  std::uint64_t period_sum = 0;  // of the periods the kernel gave, in the event's unit
  std::uint64_t bytes = 0;       // held, an upper bound
  std::uint64_t limit_bytes = 0;
};

class Aggregator final : public SampleSink {
 public:
  Aggregator() = default;

  // Where code made at run time is looked up; it is told of all processes and mappings. Must
  // outlive *this. Null: nowhere, so that no more can be known than that there is such code.
  void look_up_code_in(JitNaming* naming) { naming_ = naming; }

  // Samples of a slot count from open() to close(); those of no open slot are ignored, and show up
  // as the difference of their session's ledger.
  void open(SessionSlot slot, std::uint64_t limit_bytes);
  [[nodiscard]] SessionSamples close(SessionSlot slot);
  [[nodiscard]] const SessionSamples& samples(SessionSlot slot) const;

  [[nodiscard]] const ProcessTable& processes() const { return processes_; }

  // Of all samples, of whichever session.
  [[nodiscard]] const UnwindTally& unwind_tally() const { return unwind_tally_; }

  // Mappings that were over a limit since this was last asked.
  [[nodiscard]] std::uint64_t take_unkept_mappings() { return processes_.take_unkept(); }

  // Lets go of the processes that no open session has samples of.
  void forget_processes();

  void on_sample(const SampleView& sample) noexcept override;
  void on_mapping(const MappingView& mapping,
                  std::shared_ptr<const MappedFile> file) noexcept override;
  void on_process(const ProcessView& process) noexcept override;
  void on_unmap(const UnmapView& unmap) noexcept override;

 private:
  void count_sample(SessionSamples& session, const SampleView& sample, std::uint64_t hash) noexcept;
  [[nodiscard]] bool add_sample(SessionSamples& session, const SampleView& sample,
                                std::uint64_t hash);
  void keep_time(SessionSamples& session, ProcessSamples& process, const SampleView& sample);
  void make_room(SessionSamples& session, ProcessSamples& process, const ProcessKey& key);

  std::array<std::optional<SessionSamples>, PROFD_MAX_SESSIONS> sessions_;
  ProcessTable processes_;
  UnwindTally unwind_tally_;
  JitNaming* naming_ = nullptr;
};

}  // namespace profd
