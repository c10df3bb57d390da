// Stacks that met a file without a table: they wait for it, are unwound on in user space with its
// rows, and are handed on as if nothing had been.
//
// A stack may wait for several files in turn, kMaxWait in all; then it is handed on with what it
// has, PROFD_END_TABLE_LATE. So it is where too many wait already. Owned by the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/files/process_mappings.h"
#include "collectors/unwinding/stats.h"
#include "collectors/unwinding/step.h"
#include "collectors/unwinding/tables.h"

namespace profd {

class DeferredUnwinder {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxStacks = 4096;
  static constexpr std::size_t kMaxBytes = std::size_t{32} << 20;
  static constexpr std::chrono::seconds kMaxWait{2};

  // Has the table of a mapping's file made; it is in `tables` some time later, or refused.
  using Request = std::function<void(const CodeMapping&)>;
  using Deliver = std::function<void(const SampleView&)>;

  // All must outlive the unwinder.
  DeferredUnwinder(const UnwindTables& tables, const ProcessMappings& mappings, Request request,
                   Deliver deliver);

  // A sample with a late part: delivered at once or later.
  void add(const SampleView& sample, Clock::time_point now);

  // Goes on with those whose table is there or refused, and gives up on those that waited too long.
  void poll(Clock::time_point now);

  // Delivers all that any of the sessions has, as it stands.
  void flush(std::uint32_t sessions);

  [[nodiscard]] std::size_t waiting() const { return stacks_.size(); }
  // How many wait that a session has.
  [[nodiscard]] std::size_t waiting_for(std::uint32_t sessions) const;
  void add_to(UnwindStats& stats) const;

 private:
  struct Stack {
    SampleView sample{};  // its lists are those below, once it is delivered
    std::vector<std::uint64_t> kernel_frames;
    std::vector<std::uint64_t> user_frames;
    std::vector<std::uint64_t> mapping_ids;
    std::vector<std::uint64_t> window;
    std::uint64_t window_start = 0;
    UnwindFrame frame;
    FileKey awaited;
    Clock::time_point deadline;
  };
  enum class Progress { kWaits, kEnded };

  static Stack copy_of(const SampleView& sample);
  Progress walk(Stack& stack);
  profd_user_end step(Stack& stack, const CodeMapping& mapping) const;
  bool push_frame(Stack& stack) const;
  void deliver(Stack& stack);
  void abandon(Stack& stack);

  const UnwindTables& tables_;
  const ProcessMappings& mappings_;
  Request request_;
  Deliver deliver_;
  std::list<Stack> stacks_;
  std::size_t bytes_ = 0;  // of windows
  std::uint64_t done_ = 0;
  std::uint64_t abandoned_ = 0;
};

}  // namespace profd
