// The last stage on the io thread: takes whole samples and counts each under its stack, in every
// session of the sample's mask, until the session is closed and its SessionSamples move on.
//
// A sample costs one hash, and one look-up of the process and one of the stack for each session:
// about 100 ns in all. The memory of a session is bounded: over its limit, samples of known stacks
// still count and others are refused, with their number. So they are where the owner of the session
// has no room left in the budget of all unprivileged users (sample_budget.h).
//
// In a session of all users' processes, unprivileged users together have half of the memory, and
// one an eighth, or more while they have less than a quarter. Over that, a sample with a new stack
// is counted without its frames (PROFD_END_OVER_SHARE), and those of a new process are refused. Of
// the names of threads, they have parts as well (thread_names.h).

#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/bpf/sample.h"
#include "collectors/host/user_refusals.h"
#include "collectors/interpreters/codes.h"
#include "daemon/samples/jit_log.h"
#include "daemon/samples/process_table.h"
#include "daemon/samples/sample_budget.h"
#include "daemon/samples/stack_table.h"
#include "daemon/samples/thread_names.h"
#include "daemon/samples/time_log.h"
#include "daemon/samples/unwind_tally.h"
#include "formats/profile/sample_times.h"

namespace profd {

class JitNaming;

// The samples of one process image in one session.
struct ProcessSamples {
  StackTable stacks;
  JitLog jit;                         // of the stacks that may have frames in JIT code
  TimeLog times{};                    // of all samples, where the session keeps them
  std::optional<ProcessOwner> owner;  // of all its samples; none: only root, or owners differ
  std::uint32_t payer = 0;            // user, or kUnknownUser, as it was first sampled
};

// Whose stacks take the memory of a session.
enum class MemoryShares : std::uint8_t {
  kNone,   // the session's owner has all of it
  kUsers,  // see above
};

// Of a session that keeps the times of its samples.
struct KeptTimes {
  std::uint64_t start_ns = 0;  // CLOCK_MONOTONIC: of tick 0
  std::uint64_t room_bytes = 0;
  std::uint32_t until = kMaxTicks;  // the first tick of a sample whose time is not kept
};

// The samples of one session. A value, moved out at the end.
struct SessionSamples {
  boost::unordered_flat_map<ProcessKey, ProcessSamples, ProcessKeyHash> processes;
  std::uint64_t samples = 0;     // counted in the stacks
  std::uint64_t refused = 0;     // lost to the memory limit, or to the budget
  std::uint64_t refused_ns = 0;  // the time of these
  std::uint64_t tick_ns = 0;     // of all ticks that have a time, refused ones too: those of `wall`
  std::uint64_t period_sum = 0;  // of the samples' periods, in the event's unit
  std::uint64_t bytes = 0;       // of memory, an upper bound
  std::uint64_t limit_bytes = 0;
  MemoryShares shares = MemoryShares::kNone;
  std::uint64_t bytes_of_users = 0;  // of `bytes`, those of all but root
  boost::unordered_flat_map<std::uint32_t, std::uint64_t> bytes_of_user{};  // by payer, not of root
  std::optional<ThreadNames> threads{};  // of the stacks; none: threads are not distinguished
  std::optional<KeptTimes> times{};
  std::shared_ptr<ChargedBytes> charged{};  // `bytes`, in the budget of users; null: not one's
};

class Aggregator final : public SampleSink {
 public:
  // `naming` gets the events of all processes and mappings. Null: JIT code is recognised but not
  // named. `refusals` is that of ProcessTable, and gets samples whose thread has no name for lack
  // of room as kThreadNames. `codes` are those of the samples' interpreted frames, and forget the
  // processes that *this forgets. All must outlive *this.
  explicit Aggregator(JitNaming* naming = nullptr, UserRefusals* refusals = nullptr,
                      InterpretedCodes* codes = nullptr)
      : processes_(refusals), naming_(naming), refusals_(refusals), codes_(codes) {}
  static constexpr std::string_view kThreadNames = "thread_names";

  // Samples of a slot are counted from open() to close(). Samples of a slot that is not open are
  // ignored, and show up as the difference in their session's ledger. `charged` is empty, and null
  // for a session whose owner has no budget.
  void open(SessionSlot slot, std::uint64_t limit_bytes, bool with_threads = false,
            MemoryShares shares = MemoryShares::kNone,
            std::shared_ptr<ChargedBytes> charged = nullptr);
  // From now on the times of the slot's samples are kept, since this one by CLOCK_MONOTONIC, until
  // they take an eighth of the session's memory, or kMaxTimeBytes. take() ends that. The memory is
  // the session's, not a user's: a user's samples take as much of it as of the CPUs.
  void keep_times(SessionSlot slot, std::chrono::nanoseconds start);
  static constexpr std::uint64_t kMaxTimeBytes = std::uint64_t{16} << 20;

  [[nodiscard]] SessionSamples close(SessionSlot slot);
  // What close() would give; from now on the slot's samples are counted anew.
  [[nodiscard]] SessionSamples take(SessionSlot slot);
  [[nodiscard]] const SessionSamples& samples(SessionSlot slot) const;
  // What close() would give, of a session that goes on. The words of the stacks are shared; what is
  // copied is about 40 bytes for each stack. `charged` is null: the caller's to set. Throws
  // std::bad_alloc.
  [[nodiscard]] SessionSamples copy(SessionSlot slot) const;
  // Counts a sample in a copy, whatever its mask is. Its stack must be none of the copied ones, as
  // that of an ongoing block is, or it is there twice.
  void add_to(SessionSamples& copied, const SampleView& sample) noexcept;

  [[nodiscard]] ProcessTable& processes() { return processes_; }

  // Null: no sample has interpreted frames.
  [[nodiscard]] InterpretedCodes* codes() { return codes_; }

  // Of all samples of all sessions.
  [[nodiscard]] const UnwindTally& unwind_tally() const { return unwind_tally_; }

  // The number of mappings over a limit since the last call.
  [[nodiscard]] std::uint64_t take_dropped_mappings() { return processes_.take_dropped(); }

  // Removes the processes that no open session has samples of, and that `is_needed` is false for:
  // the first sample of a process may be a block that has not ended. The result is for a worker.
  using IsNeeded = std::function<bool(const ProcessKey& process)>;
  [[nodiscard]] ForgottenImages forget_processes(const IsNeeded& is_needed = {});

  void on_sample(const SampleView& sample) noexcept override;
  void on_mapping(const MappingView& mapping,
                  std::shared_ptr<const MappedFile> file) noexcept override;
  void on_process(const ProcessView& process) noexcept override;
  void on_unmap(const UnmapView& unmap) noexcept override;

 private:
  void count_sample(SessionSamples& session, const SampleView& sample, std::uint64_t hash) noexcept;
  [[nodiscard]] bool add_sample(SessionSamples& session, const SampleView& sample,
                                std::uint64_t hash);
  [[nodiscard]] bool add_without_frames(SessionSamples& session, ProcessSamples& process,
                                        const SampleView& sample, std::uint32_t thread);
  [[nodiscard]] ProcessSamples* find_or_add_process(SessionSamples& session,
                                                    const ProcessKey& key) const;
  [[nodiscard]] std::uint32_t payer_of(const ProcessKey& key) const;
  [[nodiscard]] std::uint32_t thread_of(SessionSamples& session, const SampleView& sample) const;
  void keep_time(SessionSamples& session, ProcessSamples& process, const SampleView& sample);
  static void keep_tick(SessionSamples& session, ProcessSamples& process, const SampleView& sample);
  void make_room(SessionSamples& session, ProcessSamples& process, const ProcessKey& key);

  std::array<std::optional<SessionSamples>, PROFD_MAX_SESSIONS> sessions_;
  ProcessTable processes_;
  UnwindTally unwind_tally_;
  JitNaming* naming_;
  UserRefusals* refusals_;
  InterpretedCodes* codes_;
};

}  // namespace profd
