// The programs of threads that are off their CPU, while sessions need them: loaded and attached at
// the first need; 5 s after the last one they are closed, with all that they know of threads. A
// session of blocks then costs nothing any more, and a block that began before has no stamp that
// would become a long one.
//
// No call waits: the thread of KernelCalls loads, attaches, watches and closes. Users can make the
// need come and go many times a second: the 5 s bound that to a load in 5 s, and after one that
// failed there is none for 10 s, since the thread has the calls of all sessions to make. Owned by
// the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bpf/block_abi.h"
#include "collectors/bpf/programs.h"
#include "collectors/bpf/sample.h"
#include "collectors/bpf/switch_programs.h"
#include "collectors/off_cpu/walk_rate.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class SwitchWatch {
 public:
  using Clock = std::chrono::steady_clock;
  using OpenList = std::future<Result<std::string>>;

  static constexpr std::chrono::seconds kKept{5};
  static constexpr std::chrono::seconds kRetry{10};

  // `programs` must outlive *this and the thread.
  explicit SwitchWatch(const Programs& programs) : programs_(&programs) {}

  // The slot needs the programs from now on. While only windows need them, fewer stacks are taken,
  // and only longer blocks are certain (block_abi.h).
  void need(SessionSlot slot, bool is_window);
  // The same for a window that continues another one, whose threads are watched.
  void continue_window(SessionSlot slot);

  // To be called when all targets of the slot are in the filter, until it is true: then the threads
  // of all targets are watched. Errors: the kernel cannot run the programs.
  [[nodiscard]] Result<bool> has_begun(SessionSlot slot);

  // Asks for the list of the blocks that are open (SwitchPrograms::list_open_blocks()). Not valid
  // where the programs are not attached.
  [[nodiscard]] OpenList list_open_blocks();

  void release(SessionSlot slot, Clock::time_point now);

  // To be called at each drain: sets how many blocks are chosen by chance.
  void tick(Clock::time_point now);

  // To be called every second or so.
  void detach_unneeded(Clock::time_point now);

  // Whether a session has needed them, now or earlier.
  [[nodiscard]] bool was_needed() const { return was_needed_; }
  // The scale of the chances now (bpf/block_choice.h). 0: the programs are not loaded.
  [[nodiscard]] std::uint32_t scale() const;

  // Since the start, of programs that were closed too.
  [[nodiscard]] profd_counters counters() const;
  [[nodiscard]] profd_switch_counters block_counters() const;

 private:
  struct Attached {
    SwitchPrograms programs;
    std::vector<UniqueFd> links{};  // closed first
  };
  using Loaded = std::shared_ptr<Attached>;

  struct Start {
    std::future<Result<std::uint64_t>> watching{};
    unsigned runs = 0;
  };

  static Result<Loaded> load_and_attach(const Programs& programs);
  Result<bool> take_loaded();
  Result<bool> watch(Start& start);
  void set_rate();
  void close();
  void take_closed();

  const Programs* programs_;
  std::future<Result<Loaded>> loading_;
  Loaded loaded_;
  // Programs that are closed. Until they are detached, they sample sessions that start meanwhile,
  // which count on their counters.
  Loaded closing_;
  std::future<bool> detaching_;
  std::optional<std::uint64_t> last_runs_;  // a grace period
  std::optional<Error> failure_;            // of the last load
  Clock::time_point failed_at_{};
  std::optional<WalkRate> walk_rate_;  // of these programs
  Clock::time_point next_rate_{};
  std::uint32_t needed_ = 0;   // a mask of slots
  std::uint32_t windows_ = 0;  // of these
  bool is_rate_of_windows_ = false;
  bool was_needed_ = false;
  std::map<SessionSlot, Start> starts_;
  Clock::time_point released_{};
  profd_counters closed_{};
  profd_switch_counters closed_blocks_{};
};

}  // namespace profd
