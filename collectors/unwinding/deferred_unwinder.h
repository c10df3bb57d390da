// Samples whose stack reached a file without an unwind table: they wait until the table is there.
// Then the rest of the stack is unwound in user space with the table's rows, and the sample goes to
// the next stage like any other.
//
// A stack may wait for several files in turn, kMaxWait in all. Then, or when too many stacks wait
// already, the sample is passed on with the frames found so far and PROFD_END_TABLE_LATE. Owned by
// the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/unwinding/process_mappings.h"
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

  // All must outlive the unwinder.
  DeferredUnwinder(const UnwindTables& tables, const ProcessMappings& mappings, Request request,
                   SampleSink& next);

  // Passes the sample on at once or later.
  void add(const DeferredSampleView& deferred, Clock::time_point now);

  // Goes on with those whose table is there or refused, and gives up on those that waited too long.
  void poll(Clock::time_point now);

  // Delivers all that any of the sessions has, as it stands.
  void flush(std::uint32_t sessions);

  [[nodiscard]] std::size_t waiting() const { return stacks_.size(); }
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
    Clock::time_point give_up_at;
  };
  enum class Progress { kWaits, kEnded };

  static Stack copy_of(const DeferredSampleView& deferred);
  Progress walk(Stack& stack);
  profd_user_end step(Stack& stack, const CodeMapping& mapping) const;
  bool push_frame(Stack& stack) const;
  void deliver(Stack& stack);
  void give_up(Stack& stack);

  const UnwindTables& tables_;
  const ProcessMappings& mappings_;
  Request request_;
  SampleSink& next_;
  std::list<Stack> stacks_;
  std::size_t bytes_ = 0;  // of windows
  std::uint64_t done_ = 0;
  std::uint64_t given_up_ = 0;
};

}  // namespace profd
