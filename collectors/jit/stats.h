// Counts of what the collection of JIT code costs and refuses, for status.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "collectors/host/user_refusals.h"

namespace profd {

// Why a JIT source is not read, or not to its end. Counted by file and occasion.
enum class JitRefusal : std::uint8_t {
  kLink,          // a symbolic link, or a perf map with a second name
  kNotRegular,    // a directory, device, FIFO or socket
  kForeignOwner,  // belongs neither to the process's user nor to root
  kLeased,        // a lease would make the open wait
  kOnFuse,        // another process serves the file, and may never answer
  kTooLarge,      // over kMaxJitFileBytes
  kStale,         // older than the process that it is named after
  kNotPermitted,  // the system refuses the open
  kLate,          // the process or the file system did not answer in time
  kMalformed,     // no jitdump, or one of an unknown version
  kForeignPid,    // its records name too many pids
  kTruncated,     // became shorter: what was read stays, the rest is not read
  kTimeout,       // exceeded the parser's time limit three times
  kParserDied,    // the parser died of it, or its answer was malformed, three times
  kOverMemory,    // the memory for JIT code is used up
  kOverShare,     // its owner's share of memory, files or time is used up
  kQueueFull,     // too many files or processes at a time
  kNotReadable,   // root's, and not everybody may read it, in a process of another user
  kUserMount,     // root's, but an unprivileged user chose its path by a mount
};
inline constexpr std::size_t kJitRefusalCount = 19;
[[nodiscard]] constexpr std::string_view name_of(JitRefusal reason) {
  constexpr std::array<std::string_view, kJitRefusalCount> kNames = {
      "link",        "not_regular", "foreign_owner", "leased",      "on_fuse",
      "too_large",   "stale",       "not_permitted", "late",        "malformed",
      "foreign_pid", "truncated",   "timeout",       "parser_died", "over_memory",
      "over_share",  "queue_full",  "not_readable",  "user_mount"};
  return kNames[static_cast<std::size_t>(reason)];
}

struct JitStats {
  std::uint64_t processes = 0;   // with a JIT source
  std::uint64_t files = 0;       // that are held
  std::uint64_t functions = 0;   // that are known now
  std::uint64_t bytes = 0;       // of memory for them
  std::uint64_t bytes_read = 0;  // of files, since the start
  std::uint64_t events = 0;      // of files, since the start
  std::uint64_t forgotten = 0;   // functions, for lack of memory
  std::uint64_t parser_restarts = 0;
  std::array<std::uint64_t, kJitRefusalCount> refused{};  // since the start
  std::map<std::string, std::uint64_t> malformed;         // records or lines, by reason

  UserRefusals* users = nullptr;  // has the refusals by user; null: nothing does

  // `user` is that of the process, or the owner of the file.
  void refuse(JitRefusal reason, std::uint32_t user) {
    ++refused[static_cast<std::size_t>(reason)];
    if (users != nullptr) users->add(user, "jit.refused." + std::string(name_of(reason)));
  }
};

}  // namespace profd
