// The JIT code of sampled processes: which function an address meant at a time.
//
// The sampler reports mappings. A process that runs JIT code is scanned for JIT sources, then again
// now and then, and its sources are read by the follower's thread as they grow (follower.h). What
// is known of a process is kept until forget_unless(), also after the process has ended.
//
// A record belongs to the process with its pid, in the PID namespace of the process. A forked child
// starts with what its parent had at the fork. Where a process shares executable memory with others
// (PHP's workers), the records belong to all processes that have the file mapped. A record of any
// other pid is dropped and counted: no process names another's code.
//
// The number of processes is limited here, the memory for their code in sources.h. For the io
// thread; nothing here waits.

#pragma once

#include <bitset>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/files/process_users.h"
#include "collectors/host/uid_owners.h"
#include "collectors/jit/answers.h"
#include "collectors/jit/code_map.h"
#include "collectors/jit/code_memory.h"
#include "collectors/jit/directory_watch.h"
#include "collectors/jit/events.h"
#include "collectors/jit/follower.h"
#include "collectors/jit/sources.h"
#include "collectors/jit/stats.h"
#include "formats/base/result.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

struct JitOptions {
  // Requests that the rows of a process's code in one area of 4 GiB (address >> 32) replace the
  // area's earlier rows. `encode` makes their table (formats/unwind/unwind_table.h), with the lower
  // halves of the addresses as offsets. It has many milliseconds of work, so call it once on
  // another thread. Destroy it when the table is installed or refused: until then there is no other
  // request for a process of that user.
  using SendRows = std::function<void(const ProcessKey& process, std::uint32_t owner,
                                      std::uint32_t area, EncodeTable encode)>;

  // All ranges of a process; none: they need not be watched any longer.
  using WatchMemory =
      std::function<void(const ProcessKey& process, std::span<const AddressRange> ranges)>;

  // To be watched: the host's /tmp, where runtimes write by default.
  std::vector<std::string> directories{kHostTmp, "/tmp"};

  // Where poll() sends the unwind rows of processes' JIT code; null: nowhere.
  SendRows send_rows{};

  // Where on_mapping() and poll() report the memory in which processes run JIT code that is known.
  // Its unmapping must then be reported to on_unmap().
  WatchMemory watch_memory = [](const ProcessKey&, std::span<const AddressRange>) {};

  // Must outlive the JitProcesses. Null: refusals are not counted by user.
  UserRefusals* refusals = nullptr;

  UidOwners owners{};  // who pays for what a uid has
};

class JitProcesses {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kMaxProcesses = PROFD_MAX_WATCHED;
  // Of all but root. The user with the most loses one process for a user who has fewer.
  static constexpr std::size_t kMaxProcessesOfUsers = kMaxProcesses / 2;
  static constexpr std::size_t kMaxProcessesOfUser = kMaxProcesses / 8;
  // The layers of one process: its own, the ones it shares, and those of its nearest ancestors.
  static constexpr std::size_t kMaxLayers = 16;
  // Between two scans of a process: the first interval, which doubles, and the longest.
  static constexpr std::chrono::seconds kFirstScan{1};
  static constexpr std::chrono::seconds kLastScan{60};
  // Between two times that a process's rows are sent: the first interval, which doubles while they
  // change all the time, and the longest.
  static constexpr std::chrono::seconds kFirstRows{1};
  static constexpr std::chrono::seconds kLastRows{8};
  // Processes whose tables are being made and installed; one of each user. Meanwhile their rows
  // take memory twice where the code changes.
  static constexpr std::size_t kMaxRequests = 4;

  // Starts the follower's thread and its parser: the program's main() must know its children.
  static Result<std::unique_ptr<JitProcesses>> start(JitOptions options);
  JitProcesses(const JitProcesses&) = delete;
  JitProcesses& operator=(const JitProcesses&) = delete;

  // Reports of the sampler, before the first sample that needs them.
  void on_process(const ProcessView& process) noexcept;
  void on_mapping(const MappingView& mapping) noexcept;
  void on_unmap(const UnmapView& unmap) noexcept;

  // Between two calls of poll() without an event: while a process that lives has a JIT source, or
  // is to be scanned soon, and else.
  static constexpr std::chrono::seconds kBusyInterval{1};
  static constexpr std::chrono::seconds kIdleInterval{4};
  [[nodiscard]] std::chrono::seconds interval(Clock::time_point now = Clock::now()) const;

  // Applies what was read since the last call, at most JitSource::kMaxStepsOfTurn of one part of a
  // file. Call when wake_fd() is readable, and at each interval(). False where there is more: call
  // again, after other work.
  bool poll(Clock::time_point now = Clock::now());
  [[nodiscard]] int wake_fd() const { return follower_->wake_fd(); }

  // The function at an address at a time, as far as it is known now. An answer keeps the function
  // from being forgotten.
  [[nodiscard]] std::optional<JitFunction> at(const ProcessKey& process, std::uint64_t address,
                                              std::uint64_t time_ns);

  // Where the code bytes and lines of an answer are. None for perf maps, and for files that are
  // released.
  [[nodiscard]] std::optional<JitSourceFile> source_file_of(const JitCode& code) const;

  // None for an unknown process.
  [[nodiscard]] std::optional<JitProcessInfo> info(const ProcessKey& process) const;

  // Scans these processes and reads all files to their present end, for 2 s at most. Pass the
  // answer to has_read_to_end(), after poll().
  [[nodiscard]] std::uint64_t read_to_end(const std::vector<ProcessKey>& processes);
  [[nodiscard]] bool has_read_to_end(std::uint64_t ticket) const { return ticket <= read_ticket_; }

  // Forgets the processes that have ended and that `needed` refuses, and closes their files.
  void forget_unless(const std::function<bool(const ProcessKey&)>& needed);

  [[nodiscard]] JitStats stats() const;

 private:
  struct Process {
    JitProcessFacts facts;
    std::uint32_t uid = 0;    // uid_of() when it was first seen
    std::uint32_t payer = 0;  // the user whose uid that is
    std::vector<std::shared_ptr<JitSource>> sources;
    std::vector<JitLayer> layers;           // its own first, then the latest fork first
    std::bitset<kJitRefusalCount> refused;  // reasons that are counted already
    JitCodeRanges memory;                   // of JIT code
    bool has_new_memory = false;
    bool is_watched = false;
    bool is_gone = false;
    bool is_being_scanned = false;
    Clock::time_point next_scan{};
    Clock::duration scan_interval = kFirstScan;
    std::uint64_t sent_changes = 0;      // JitCodeRows::changes() of all layers when rows were sent
    std::set<std::uint32_t> sent_areas;  // for which rows were sent
    Clock::time_point next_rows{};
    Clock::duration rows_interval = kFirstRows;

    // In its own PID namespace. Of a process that was gone before its scan, only the pid in profd's
    // namespace is known.
    [[nodiscard]] std::uint32_t pid(const ProcessKey& key) const {
      return facts.pid_in_namespace != 0 ? facts.pid_in_namespace : key.tgid;
    }
  };
  JitProcesses(std::unique_ptr<JitFollower> follower, JitOptions options)
      : follower_(std::move(follower)),
        options_(std::move(options)),
        sources_(*follower_, stats_, options_.owners) {
    stats_.users = options_.refusals;
  }
  void add_mapping(const MappingView& mapping);
  // The refusal of a process for which there is no room.
  std::optional<JitRefusal> make_room(std::uint32_t payer);
  void forget_one_of(std::uint32_t payer);
  // From the sampler; JitFollower::kNobody where it is not known.
  [[nodiscard]] std::uint32_t uid_of(const ProcessKey& key) const;
  [[nodiscard]] const Process* find(const ProcessKey& key) const;
  void stop_watching(const ProcessKey& key, Process& process) const;
  void report_memory(const ProcessKey& key, Process& process) const;

  void on(const JitProcessScanned& scanned);
  void on(const JitFileSeen& seen);
  void on(const JitFileGrew& grew);
  void on(const JitFileEnded& ended);
  void on(const JitReadToEnd& read) { read_ticket_ = read.ticket; }

  void scan(const ProcessKey& key, Process& process);
  void scan_and_reap(Clock::time_point now);
  void attach(const ProcessKey& key, Process& process, const std::shared_ptr<const JitFile>& file,
              bool is_shared);
  void add_layers(const ProcessKey& key, Process& process, JitSource& source);
  void add_layer(Process& process, JitSource& source, std::uint32_t pid, std::uint64_t until_ns);
  static void add_layer(Process& process, JitLayer layer);
  void inherit(const ProcessKey& key, Process& process);
  [[nodiscard]] std::uint64_t start_of(const ProcessKey& key);  // in the clock of samples
  void send_rows(Clock::time_point now);
  void send_rows_of(const ProcessKey& key, Process& process);
  [[nodiscard]] bool has_request(std::uint32_t payer) const;

  std::unique_ptr<JitFollower> follower_;
  JitOptions options_;
  std::deque<JitEvent> waiting_;  // taken from the follower, not yet applied
  std::uint64_t read_ticket_ = 0;
  JitStats stats_;
  JitSources sources_;
  std::map<ProcessKey, Process> processes_;             // sorted by tgid first
  std::int64_t suspended_ns_ = 0;                       // since the boot
  std::map<std::uint32_t, std::size_t> count_of_user_;  // of processes_, by payer
  ProcessUsers users_;
  // The tables that are being made for one process.
  struct Request {
    std::uint32_t payer = 0;
    std::weak_ptr<const void> token;  // all functions that make these tables have it
  };
  std::vector<Request> requests_;
  Clock::time_point next_rows_{};
  Clock::time_point reaped_at_{};
};

}  // namespace profd
