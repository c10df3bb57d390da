// What the daemon says of itself: GET /v1/status of the control socket (docs/api.md).

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/api/session_summary.h"
#include "formats/base/result.h"

namespace profd {

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

  // How user stacks ended since the start, and what unwinding by tables takes.
  struct Unwinding {
    // The object in which stacks broke off: its path, or a name in brackets.
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
    struct Late {
      std::uint64_t waiting = 0;
      std::uint64_t done = 0;
      std::uint64_t given_up = 0;
      friend bool operator==(const Late&, const Late&) = default;
    };

    std::uint64_t user_samples = 0;
    std::uint64_t complete_samples = 0;  // of user_samples
    CountsByReason incomplete;           // the rest of them
    std::vector<Object> worst;
    Tables tables;
    Late late;
    std::uint64_t parser_restarts = 0;  // of all parsers
    friend bool operator==(const Unwinding&, const Unwinding&) = default;
  };

  // The files of JIT runtimes, and what is known by them.
  struct Jit {
    std::uint64_t processes = 0;   // with such a file
    std::uint64_t files = 0;       // held
    std::uint64_t functions = 0;   // known now
    std::uint64_t bytes = 0;       // of memory for them
    std::uint64_t bytes_read = 0;  // of files
    std::uint64_t events = 0;      // records and lines that told something
    std::uint64_t forgotten = 0;   // functions, for want of memory
    CountsByReason refused;        // files
    CountsByReason malformed;      // records and lines
    friend bool operator==(const Jit&, const Jit&) = default;
  };

  // The child processes that parse files. Their CPU time includes that of those that have gone.
  struct Parsers {
    std::uint64_t processes = 0;
    double cpu_seconds = 0;
    std::uint64_t rss_bytes = 0;
    friend bool operator==(const Parsers&, const Parsers&) = default;
  };

  // To the control socket.
  struct Connections {
    std::uint64_t open = 0;
    std::uint64_t refused = 0;  // over the limit of connections
    std::uint64_t starved = 0;  // times that none could be accepted, for want of descriptors
    std::uint64_t slow = 0;     // closed: a request or an answer took too long
    friend bool operator==(const Connections&, const Connections&) = default;
  };

  // CPUs that went, whose events died with them, until the events were opened anew.
  struct CpuGaps {
    std::uint64_t count = 0;
    double seconds = 0;  // in which nothing was sampled there
    friend bool operator==(const CpuGaps&, const CpuGaps&) = default;
  };

  // Memory with code made at run time that a process gave up.
  struct Unmaps {
    std::uint64_t told = 0;
    std::uint64_t lost = 0;  // more than profd takes of one process, or than it had room for
    friend bool operator==(const Unmaps&, const Unmaps&) = default;
  };

  // Instrumented apps and their traces.
  struct Xray {
    std::uint64_t apps = 0;            // connected
    std::uint64_t apps_refused = 0;    // over a limit, or not who they were
    std::uint64_t sessions = 0;        // running
    std::uint64_t failed = 0;          // sessions that ended with an error
    CountsByReason ended;              // sessions that ended before anybody asked (docs/xray.md)
    std::uint64_t traces = 0;          // of the watched directory, that became results
    std::uint64_t traces_refused = 0;  // that did not
    std::uint64_t traces_missed = 0;   // times that the directory was looked through for more
    friend bool operator==(const Xray&, const Xray&) = default;
  };

  // The windows that are sampled all the time, and those that are kept.
  struct Continuous {
    bool enabled = false;
    std::uint64_t frequency_hz = 0;
    std::uint64_t window_seconds = 0;
    std::uint64_t windows = 0;
    std::uint64_t objects = 0;       // images that they share
    std::uint64_t disk_bytes = 0;    // of both
    std::string oldest;              // RFC 3339, UTC: its start; empty: there is none
    std::string last_written;        // the end of that window
    std::uint64_t waiting = 0;       // to be written
    std::uint64_t damaged = 0;       // found so at the start, and set aside
    CountsByReason failed;           // windows that were not written, or not removed
    std::uint64_t lost_samples = 0;  // of those that were not written
    friend bool operator==(const Continuous&, const Continuous&) = default;
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
  std::uint64_t mapping_records = 0;
  Unmaps unmaps;
  std::uint64_t results_bytes = 0;
  Parsers parsers;
  Connections connections;
  CpuGaps cpu_gaps;
  Unwinding unwinding;
  Jit jit;
  Xray xray;
  Continuous continuous;

  friend bool operator==(const StatusInfo&, const StatusInfo&) = default;
};

[[nodiscard]] std::string to_json(const StatusInfo& status);
// Unknown members are skipped, so that an older profctl can ask a newer daemon.
[[nodiscard]] Result<StatusInfo> parse_status_info(std::string_view json);

}  // namespace profd
