// The JIT code of sampled processes: whose runtime wrote what, so that an address means a function
// at a time.
//
// It is told of mappings; a process that runs code of its own making is looked at, then again now
// and then, and what it wrote is followed on another thread (jit_follower.h). What a process knows
// it keeps until forget_unless(), also when the process is gone.
//
// Whose a record is: its own pid's, as the process's PID namespace has it. A forked child starts
// with what its parent had at the fork. Where a process shares executable memory with others (PHP's
// workers), all that its file tells is everyone's who has the file mapped. A record of any other
// pid is dropped and counted: no process names another's code.
//
// Bounded by processes, and by memory in all and of one user but root (jit_registry.h).
// Owned by the io thread; nothing here waits.

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/jit/code_map.h"
#include "collectors/jit/follower.h"
#include "collectors/jit/registry.h"
#include "collectors/jit/stats.h"
#include "formats/base/result.h"
#include "formats/jit/code_index.h"

namespace profd {

struct JitOptions {
  std::vector<std::string> directories;  // watched beside the host's /tmp
};

// What an address meant at a time.
struct JitFunction {
  // The same for all addresses and times at which this function was this code; never another's.
  std::uint64_t generation = 0;
  JitCode code;  // its name is valid until the next poll(); `source` is for source_file_of()
};

// What is known of one process's runtime, for `ps`.
struct JitProcessInfo {
  std::string
      file;  // the first jitdump or else map, as the process calls it; empty: none was found
  JitFileKind kind = JitFileKind::kJitDump;
  std::string_view runtime;     // formats/jit/runtimes.h's name of it; empty: none that is known
  std::uint64_t functions = 0;  // known now
  bool is_gone = false;
};

class JitProcesses {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts the following thread and its parser (parser.h: the program must be one that can be one).
  static Result<std::unique_ptr<JitProcesses>> start(const JitOptions& options);
  JitProcesses(const JitProcesses&) = delete;
  JitProcesses& operator=(const JitProcesses&) = delete;
  ~JitProcesses();

  // What the sampler tells, before the first sample that needs it.
  void on_process(const ProcessView& process) noexcept;
  void on_mapping(const MappingView& mapping) noexcept;
  void on_unmap(const UnmapView& unmap) noexcept;

  // Takes up what was read since, one part of a file at most: call when wake_fd() is readable, and
  // now and then. False where there is more: call again, after others.
  bool poll(Clock::time_point now = Clock::now());
  [[nodiscard]] int wake_fd() const { return follower_->wake_fd(); }

  // Where unwind rows go: those of a process's code in one 4 GiB of addresses (address >> 32), as
  // an encoded table (unwind_table.h) of the lower half, instead of those that were given before.
  // Called by poll(), for one process once a second at most.
  using TakeRows = JitRegistry::TakeRows;
  void send_rows_to(TakeRows take_rows);

  // Whom to have told where processes run code of their making: when they give that memory up,
  // on_unmap() is to know. Called by on_mapping() and poll().
  void send_code_memory_to(JitCodeMemory::Watch watch);

  // What lay at an address at a time, as far as it is known by now. An answer keeps the function
  // from being forgotten.
  [[nodiscard]] std::optional<JitFunction> at(const ProcessKey& process, std::uint64_t address,
                                              std::uint64_t time_ns);
  // Whether at() will give the same answers for that time for ever; true for a process of which
  // nothing is expected.
  [[nodiscard]] bool is_final(const ProcessKey& process, std::uint64_t time_ns) const;
  // Whether at() can have any answer for the process.
  [[nodiscard]] bool knows(const ProcessKey& process) const;

  // Of an answer's code: where its bytes and lines are. None for perf maps, and for files that were
  // let go of.
  [[nodiscard]] std::optional<JitSourceFile> source_file_of(const JitCode& code) const;

  // None for a process of which nothing is known.
  [[nodiscard]] std::optional<JitProcessInfo> info(const ProcessKey& process) const;

  // Has the files of these processes looked for and read to their present end, for at most 2 s.
  // Ask has_read_on() with the answer, after poll().
  [[nodiscard]] std::uint64_t read_on(const std::vector<ProcessKey>& processes);
  [[nodiscard]] bool has_read_on(std::uint64_t ticket) const { return ticket <= read_ticket_; }

  // Forgets the processes that are gone and that `needed` refuses, and closes their files.
  void forget_unless(const std::function<bool(const ProcessKey&)>& needed);

  [[nodiscard]] JitStats stats() const;

 private:
  explicit JitProcesses(std::unique_ptr<JitFollower> follower);
  void take_up(const JitEvent& news);

  std::unique_ptr<JitFollower> follower_;
  std::unique_ptr<JitRegistry> registry_;
  TakeRows take_rows_;
  std::deque<JitEvent> waiting_;  // taken from the follower, not yet taken up
  std::uint64_t read_ticket_ = 0;
};

}  // namespace profd
