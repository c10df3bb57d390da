// The state of a running daemon: GET /v1/status of the control socket (docs/api.md).

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/api/session_summary.h"
#include "formats/base/result.h"

namespace profd {

// Continuous mode and the windows that it keeps.
struct ContinuousStatus {
  bool enabled = false;
  std::uint64_t frequency_hz = 0;
  std::uint64_t window_seconds = 0;
  std::uint64_t windows = 0;
  std::uint64_t hours = 0;         // hour files
  std::uint64_t disk_bytes = 0;    // of all windows and hour files, in whole blocks
  std::string oldest;              // RFC 3339, UTC: the start of that file; empty: there is none
  std::string last_written;        // RFC 3339, UTC: the end of that window
  std::uint64_t waiting = 0;       // windows that are not written yet
  std::uint64_t malformed = 0;     // windows found malformed at the start, and set aside
  CountsByReason failed;           // windows that could not be written or removed
  std::uint64_t lost_samples = 0;  // of windows that could not be written
  // Whose stacks are not kept, since a user's stacks were over the user's share of a window.
  std::uint64_t over_share_samples = 0;
  friend bool operator==(const ContinuousStatus&, const ContinuousStatus&) = default;
};

// The programs that sample blocks: times that threads are off their CPU. All counts but those of
// open blocks and the scale are since the first session of blocks.
struct OffCpuStatus {
  std::uint64_t threads_watched = 0;
  std::uint64_t threads_refused = 0;  // the kernel had no memory
  std::uint64_t walks = 0;            // stacks taken
  std::uint64_t walks_by_chance = 0;  // of these, such that stand for several blocks
  std::uint64_t scale = 0;            // of the chances of short blocks
  std::uint64_t ends_lost = 0;
  std::uint64_t open_blocks = 0;
  std::uint64_t open_bytes = 0;  // of memory that these take
  friend bool operator==(const OffCpuStatus&, const OffCpuStatus&) = default;
};

struct StatusInfo {
  struct Ledger {
    std::uint64_t taken = 0;
    std::uint64_t sent = 0;
    std::uint64_t idle = 0;
    std::uint64_t filtered = 0;
    CountsByReason lost;

    // taken - sent - idle - filtered - lost, of terms that are counted separately.
    [[nodiscard]] std::int64_t difference() const;
    friend bool operator==(const Ledger&, const Ledger&) = default;
  };

  // The ends of user stacks since the start of the daemon, and the unwind tables.
  struct Unwinding {
    // An object in which stacks ended too early: its path, or a name in brackets.
    struct Object {
      std::string path;
      std::string reason;
      std::uint64_t samples = 0;
      friend bool operator==(const Object&, const Object&) = default;
    };
    struct Tables {
      std::uint64_t count = 0;
      std::uint64_t files = 0;
      std::uint64_t rows = 0;
      std::uint64_t bytes = 0;
      std::uint64_t arena_bytes = 0;
      std::uint64_t cap_bytes = 0;
      std::uint64_t rules = 0;
      std::uint64_t evicted = 0;
      std::uint64_t loading = 0;
      CountsByReason refused;  // files
      friend bool operator==(const Tables&, const Tables&) = default;
    };
    // Stacks that met a file before its table was there, and are unwound in user space.
    struct Deferred {
      std::uint64_t waiting = 0;
      std::uint64_t done = 0;
      std::uint64_t abandoned = 0;
      friend bool operator==(const Deferred&, const Deferred&) = default;
    };

    std::uint64_t user_samples = 0;
    std::uint64_t complete_samples = 0;  // of user_samples
    CountsByReason incomplete;           // the rest of user_samples
    std::vector<Object> worst;
    Tables tables;
    Deferred deferred;
    std::uint64_t parser_restarts = 0;  // of all parsers
    friend bool operator==(const Unwinding&, const Unwinding&) = default;
  };

  // The files that JIT runtimes write, and the functions in them.
  struct Jit {
    std::uint64_t processes = 0;   // that have such a file
    std::uint64_t files = 0;       // held open
    std::uint64_t functions = 0;   // known now
    std::uint64_t bytes = 0;       // memory that they take
    std::uint64_t bytes_read = 0;  // from files
    std::uint64_t events = 0;      // records and lines that changed the set of functions
    std::uint64_t forgotten = 0;   // functions that were removed to free memory
    CountsByReason refused;        // files
    CountsByReason malformed;      // records and lines
    friend bool operator==(const Jit&, const Jit&) = default;
  };

  // Interpreters in files, and the frames of the code that they run. Since the start of the daemon.
  struct Interpreters {
    struct File {
      std::string path;     // as it was first mapped
      std::string runtime;  // "python 3.11.2"
      std::string verdict;  // "known", else why its frames are not read
      friend bool operator==(const File&, const File&) = default;
    };

    bool supported = true;        // false: this kernel's verifier refused the programs
    std::uint64_t known = 0;      // files whose frames are read
    std::uint64_t stacks = 0;     // with interpreted frames
    std::uint64_t frames = 0;     // of these
    std::uint64_t processes = 0;  // with code objects, now
    std::uint64_t codes = 0;      // code objects, now
    std::uint64_t bytes = 0;      // memory that they take
    std::uint64_t announced = 0;  // code objects, each time that one was sent
    CountsByReason lost{};        // stacks, frames and announcements
    CountsByReason refused{};     // files
    std::vector<File> files{};    // for privileged callers
    friend bool operator==(const Interpreters&, const Interpreters&) = default;
  };

  // The child processes that parse files. The CPU time includes that of children that have ended.
  struct Parsers {
    std::uint64_t processes = 0;
    double cpu_seconds = 0;
    std::uint64_t rss_bytes = 0;
    friend bool operator==(const Parsers&, const Parsers&) = default;
  };

  // How well the code in sessions and windows is named, and where the names come from.
  struct Names {
    // Reading DWARF.
    struct Lines {
      std::uint64_t answered = 0;     // addresses
      CountsByReason addresses_lost;  // whose answer is not whole
      CountsByReason files_refused;   // that are not tried for an hour
      double cpu_seconds = 0;
      std::uint64_t failures = 0;  // symbolizers that died or were killed
      friend bool operator==(const Lines&, const Lines&) = default;
    };

    // Debug files, each time that one is needed.
    struct DebugFiles {
      CountsByReason found;    // by place
      CountsByReason refused;  // those that are there and not read
      friend bool operator==(const DebugFiles&, const DebugFiles&) = default;
    };

    std::uint64_t samples = 0;
    std::uint64_t fully_named = 0;  // samples with a name for each frame
    CountsByReason sources;         // samples by where the innermost frame's name comes from
    std::uint64_t cached_files = 0;
    std::uint64_t cached_bytes = 0;
    std::uint64_t looked_up = 0;  // addresses that were not in the cache
    std::uint64_t read_back = 0;  // addresses whose names came from windows at the start
    DebugFiles debug_files{};
    Lines lines;
    friend bool operator==(const Names&, const Names&) = default;
  };

  // Connections to the control socket.
  struct Connections {
    std::uint64_t open = 0;
    std::uint64_t refused = 0;         // over the limit of connections
    std::uint64_t starved = 0;         // times that accept() failed because no descriptor was free
    std::uint64_t slow = 0;            // closed because a request or an answer took too long
    std::uint64_t unread = 0;          // closed because the client left an answer unread
    std::uint64_t doors_replaced = 0;  // that died or stood still; their clients are disconnected
    std::uint64_t doors_stuck = 0;     // killed, but not ended yet
    friend bool operator==(const Connections&, const Connections&) = default;
  };

  // CPUs that went offline, which ends their perf events, until the events were opened again.
  struct CpuGaps {
    std::uint64_t count = 0;
    double seconds = 0;  // without samples of that CPU
    friend bool operator==(const CpuGaps&, const CpuGaps&) = default;
  };

  // Ranges of memory with JIT code that processes unmapped.
  struct Unmaps {
    std::uint64_t reported = 0;
    std::uint64_t lost = 0;  // over the rate limit of a process, or the ring buffer was full
    friend bool operator==(const Unmaps&, const Unmaps&) = default;
  };

  // Instrumented apps and their traces.
  struct Xray {
    std::uint64_t apps = 0;            // connected
    std::uint64_t apps_refused = 0;    // over a limit, or the pid had another process by then
    std::uint64_t doors_replaced = 0;  // processes that hold apps' connections; the apps reconnect
    std::uint64_t closers_replaced = 0;  // processes that close such connections
    std::uint64_t doors_stuck = 0;       // of both kinds, killed, but not ended yet
    std::uint64_t sessions = 0;          // running
    std::uint64_t failed = 0;            // sessions that ended with an error
    CountsByReason ended;      // sessions that ended before they were stopped (docs/xray.md)
    std::uint64_t traces = 0;  // in the watched directory that became results
    std::uint64_t traces_refused = 0;  // in the watched directory that did not
    std::uint64_t traces_missed = 0;   // events lost, or a scan that was cut
    friend bool operator==(const Xray&, const Xray&) = default;
  };

  using Continuous = ContinuousStatus;
  using OffCpu = OffCpuStatus;

  // What was refused to an unprivileged user, or dropped.
  struct User {
    std::optional<std::uint32_t> uid;  // none: all users that have no row of their own
    CountsByReason refused;
    friend bool operator==(const User&, const User&) = default;
  };

  std::string version;
  std::uint32_t pid = 0;
  double uptime_seconds = 0;
  double cpu_seconds = 0;
  std::uint64_t rss_bytes = 0;
  std::uint64_t sessions = 0;
  Ledger ledger;
  std::uint64_t outside_namespace = 0;
  std::uint64_t received = 0;
  std::uint64_t skipped_estimate = 0;
  std::uint64_t children_not_followed = 0;  // there were too many target processes
  std::uint64_t mapping_records = 0;
  CountsByReason mapping_records_lost;
  std::uint64_t process_records_lost = 0;  // no room in the rings; sent later
  Unmaps unmaps;
  std::uint64_t results_bytes = 0;
  std::uint64_t results_refused = 0;  // since they were over a limit of the disk
  Parsers parsers;
  Connections connections;
  CpuGaps cpu_gaps;
  Unwinding unwinding;
  Jit jit;
  Interpreters interpreters{};
  Names names;
  Xray xray;
  Continuous continuous;
  // Of windows of the time off the CPU, whose frequency is 0; none: they are off, and none is kept.
  std::optional<Continuous> continuous_off_cpu{};
  std::optional<OffCpu> off_cpu{};  // none: there was no session of blocks
  std::vector<User> users;          // for privileged callers

  friend bool operator==(const StatusInfo&, const StatusInfo&) = default;
};

[[nodiscard]] std::string to_json(const StatusInfo& status);
// Unknown members are skipped, so that an older profctl can ask a newer daemon.
[[nodiscard]] Result<StatusInfo> parse_status_info(std::string_view json);

}  // namespace profd
