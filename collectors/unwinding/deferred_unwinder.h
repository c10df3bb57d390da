// Deferred stacks: a stack that reached a file without a table waits for the table, is unwound
// further in user space, and is then delivered like any other sample. Its interpreted frames wait
// with it, and meet the native frames of their loops in its steps.
//
// A stack can wait for several files in turn, for kMaxWait in total. After that, and if too many
// stacks are waiting, it is delivered as it is, with PROFD_END_TABLE_LATE. Stacks of users other
// than root take half of the room, and those of one of them an eighth, or more while users have
// less than a quarter. Owned by the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/interpreters/pending_stacks.h"
#include "collectors/interpreters/weave.h"
#include "collectors/unwinding/process_mappings.h"
#include "collectors/unwinding/stats.h"
#include "collectors/unwinding/step.h"
#include "collectors/unwinding/tables.h"

namespace profd {

class DeferredUnwinder {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxBytes = std::size_t{32} << 20;
  static constexpr std::size_t kMaxBytesOfUsers = kMaxBytes / 2;
  static constexpr std::size_t kFreeBytesOfUsers = kMaxBytes / 4;
  static constexpr std::size_t kMaxBytesOfUser = kMaxBytes / 8;
  // A stack counts as its window, and as so much at least.
  static constexpr std::size_t kMinBytes = 8192;
  static constexpr std::chrono::seconds kMaxWait{2};

  // Requests the table of a mapping's file: later `tables` has it, or it is refused.
  using Request = std::function<void(const CodeMapping&)>;

  // Whether this offset in a file is code of an interpreter's loop.
  using IsLoopOfFile = std::function<bool(const FileKey& file, std::uint64_t offset)>;

  // Takes a whole sample, with its native frames, and its interpreted ones, which may be empty.
  // Must not throw.
  using Deliver = std::function<void(const SampleView&, const InterpretedStack&)>;

  // `tables` and `mappings` must outlive the object.
  DeferredUnwinder(const UnwindTables& tables, const ProcessMappings& mappings, Request request,
                   IsLoopOfFile is_loop, Deliver deliver);

  // Delivers the sample, now or later. `user` is the one whose process it is (uid_owners.h).
  // `interpreted` are its interpreted frames; null: it has none.
  void add(const DeferredSampleView& deferred, std::uint32_t user, Clock::time_point now,
           const InterpretedStack* interpreted = nullptr);

  // Continues the stacks whose table is there or refused, and delivers those that waited too long:
  // until `end`, and kMaxWalks at most. True: the next call goes on with the others.
  bool poll(Clock::time_point now, Clock::time_point end = Clock::time_point::max());
  static constexpr std::size_t kMaxWalks = 256;

  // Delivers all stacks of these sessions (a bit mask of slots) as they are.
  void flush(std::uint32_t sessions);

  [[nodiscard]] std::size_t waiting() const { return stacks_.size(); }
  void add_to(UnwindStats& stats) const;

 private:
  struct Stack {
    SampleView sample{};  // its spans are set only for delivery
    std::vector<std::uint64_t> kernel_frames;
    std::vector<std::uint64_t> user_frames;
    std::vector<std::uint64_t> mapping_ids;
    std::vector<std::uint64_t> window;
    InterpretedStack interpreted;
    std::uint64_t window_start = 0;
    UnwindFrame frame;
    FileKey awaited;
    Clock::time_point deadline;
    std::uint32_t user = 0;

    [[nodiscard]] std::size_t bytes() const;
  };
  using Stacks = std::list<Stack>;
  enum class Progress { kWaits, kEnded };

  static Stack copy_of(const DeferredSampleView& deferred);
  Progress walk(Stack& stack);
  void meet(AnchorWalk& anchors, const Stack& stack, const CodeMapping& mapping,
            const UnwindFrame& before) const;
  profd_user_end step(Stack& stack, const CodeMapping& mapping) const;
  bool push_frame(Stack& stack) const;
  [[nodiscard]] bool has_room(std::uint32_t user, std::size_t bytes) const;
  Stacks::iterator remove(Stacks::iterator stack, Progress progress);
  void finish(Stack& stack, Progress progress);

  const UnwindTables& tables_;
  const ProcessMappings& mappings_;
  Request request_;
  IsLoopOfFile is_loop_;
  Deliver deliver_;
  Stacks stacks_;          // in the order in which poll() reaches them
  std::size_t bytes_ = 0;  // of all stacks
  std::size_t bytes_of_users_ = 0;
  std::map<std::uint32_t, std::size_t> bytes_of_user_;  // not of root
  std::uint64_t done_ = 0;
  std::uint64_t abandoned_ = 0;
};

}  // namespace profd
