// session.json: the parameters of a session, its profiles and its lost samples.
//
// Scripts rely on the form; docs/api.md names every member. The daemon makes it, the control socket
// transfers it, and profctl writes it beside the profiles.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/fwd.hpp>

#include "formats/base/result.h"

namespace profd {

// Losses and other counts by reason; an ordered map, so that output is stable. Reasons with a count
// of 0 are left out.
using CountsByReason = std::map<std::string, std::uint64_t>;

[[nodiscard]] std::uint64_t sum_of(const CountsByReason& counts);

// "5 no_row, 2 window"
[[nodiscard]] std::string text_of(const CountsByReason& counts);

// How well the JIT code of one profile is named: its runtime, the file that names it, and how many
// samples have names.
struct JitNames {
  std::string runtime;              // "Node.js"; empty: an unknown one
  std::string file;                 // the jitdump or perf map, by the process's path; empty: none
  std::uint64_t functions = 0;      // known functions, whether or not a sample hit them
  std::uint64_t samples = 0;        // samples whose innermost user frame lies in JIT code
  std::uint64_t named_samples = 0;  // those of them in a known function
  std::uint64_t time_dropped = 0;   // samples that are named by another time than their own

  friend bool operator==(const JitNames&, const JitNames&) = default;
};

// Adds the names of a later period of the same process.
void add_later(const JitNames& later, JitNames& sum);

[[nodiscard]] boost::json::value json_of(const JitNames& names);
[[nodiscard]] Result<void> read_json(const boost::json::value& value, JitNames& out);

// How well the interpreted code of one profile is named, or why none is shown.
struct InterpretedNames {
  std::string runtime;              // "python 3.11"; empty: no code was announced
  std::uint64_t functions = 0;      // that samples hit
  std::uint64_t samples = 0;        // with a frame in interpreted code
  std::uint64_t named_samples = 0;  // those of them whose interpreted frames all have names
  // Those whose outermost interpreted frames are behind all native ones, as the native frame that
  // runs them is not in the stack.
  std::uint64_t unanchored = 0;
  // Why the interpreter's frames are not read, as StatusInfo::Interpreters::refused has it; then
  // there are no samples. Empty: they are read.
  std::string refused{};

  friend bool operator==(const InterpretedNames&, const InterpretedNames&) = default;
};

// Adds the names of a later period of the same process.
void add_later(const InterpretedNames& later, InterpretedNames& sum);

[[nodiscard]] boost::json::value json_of(const InterpretedNames& names);
[[nodiscard]] Result<void> read_json(const boost::json::value& value, InterpretedNames& out);

// taken = written + lost. Each term is counted separately; difference() is the error of the sum.
struct SessionLedger {
  std::uint64_t taken = 0;    // matches in the kernel
  std::uint64_t written = 0;  // the sum over the profiles, read back from the files
  CountsByReason lost;

  [[nodiscard]] std::int64_t difference() const;
  friend bool operator==(const SessionLedger&, const SessionLedger&) = default;
};

struct ProfileSummary {
  std::uint32_t pid = 0;            // in profd's PID namespace
  std::uint64_t start_time_ns = 0;  // of the process, since boot
  std::string comm;
  std::string path;  // relative to the session's directory
  std::uint64_t samples = 0;
  std::uint64_t stacks = 0;        // distinct
  std::uint64_t user_samples = 0;  // with a user stack
  // Of user_samples, those whose stack reaches the entry function of the program or thread.
  std::uint64_t complete_samples = 0;
  std::uint64_t kernel_only_samples = 0;          // kernel threads, and ticks in exit or exec
  CountsByReason incomplete;                      // the rest of user_samples, by the reason
  std::optional<std::string> unit;                // systemd unit, from the cgroup
  std::optional<std::string> container;           // container id, from the cgroup
  std::optional<JitNames> jit;                    // none: no sample has a frame in JIT code
  std::optional<InterpretedNames> interpreted{};  // none: likewise, and no interpreter is refused

  friend bool operator==(const ProfileSummary&, const ProfileSummary&) = default;
};

// The blocks of a session of off-cpu, runnable or wall (docs/api.md): their numbers and times. In
// the kernel, blocked = sampled + long_unsampled + short_unsampled + lost, of terms that are
// counted separately; the samples stand for all but what is lost.
struct BlockSummary {
  struct Term {
    std::uint64_t blocks = 0;
    std::uint64_t us = 0;
    friend bool operator==(const Term&, const Term&) = default;
  };

  Term blocked;
  Term sampled;
  Term long_unsampled;   // of 10 ms or more, without a user stack
  Term short_unsampled;  // sampled blocks stand for them
  Term lost;
  Term by_weight;             // of the samples: those that stand for several blocks
  Term from_before;           // of the samples: blocks that began before the session
  Term ongoing;               // of the samples: blocks that had not ended
  CountsByReason incomplete;  // blocks: "no_start", "no_end", "no_room"

  // Of the times in the kernel, in microseconds.
  [[nodiscard]] std::int64_t difference() const;
  friend bool operator==(const BlockSummary&, const BlockSummary&) = default;
};

[[nodiscard]] boost::json::value json_of(const BlockSummary& blocks);
[[nodiscard]] Result<void> read_json(const boost::json::value& value, BlockSummary& out);

struct SessionSummary {
  std::string session;
  std::string started;  // RFC 3339, UTC
  double seconds = 0;
  std::string event;
  std::uint64_t period_us = 0;  // in period_unit: microseconds for an event that is time
  std::string period_unit = "microseconds";
  std::vector<ProfileSummary> profiles;
  SessionLedger ledger;
  // For event "xray": counts of its records, and of the irregular ones by kind.
  std::optional<CountsByReason> xray{};
  // Of events whose samples are blocks. The profiles and the ledger then count microseconds.
  std::optional<BlockSummary> blocks{};

  friend bool operator==(const SessionSummary&, const SessionSummary&) = default;
};

[[nodiscard]] boost::json::value json_of(const SessionSummary& summary);
[[nodiscard]] Result<void> read_json(const boost::json::value& value, SessionSummary& out);
[[nodiscard]] std::string to_json(const SessionSummary& summary);
// Unknown members are skipped, so that a newer daemon's files stay readable. "difference" is
// computed, never read.
[[nodiscard]] Result<SessionSummary> parse_session_summary(std::string_view json);

}  // namespace profd
