// What following the files of JIT runtimes costs and can't do, for status.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace profd {

// Why a file that may be a runtime's is not read, or not on; counted by file and occasion.
enum class JitRefusal : std::uint8_t {
  kLink,          // a symbolic link, or a perf map with a second name
  kNotRegular,    // a directory, device, FIFO or socket
  kForeignOwner,  // of neither the process's user nor root
  kLeased,        // a lease would let the open wait
  kOnFuse,        // another process answers for it, or never does
  kTooLarge,      // over 16 GiB
  kStale,         // older than the process that it is named after
  kNotPermitted,  // the system refuses the open
  kLate,          // its process or file system keeps us waiting
  kMalformed,     // no jitdump, or one of a version or machine that can't be read
  kForeignPid,    // its records are of no process that has it mapped
  kTruncated,     // shorter than it was: what was read stays, the rest is let go
  kTimeout,       // three times over the parser's time limit
  kParserDied,    // the parser died of it three times, or its answer made no sense
  kOverMemory,    // code of all processes takes up all memory, or this process's its share
  kOverShare,     // files or code of this owner take up their share
  kQueueFull,     // too many files or processes at a time
};
inline constexpr std::size_t kJitRefusalCount = 17;
[[nodiscard]] std::string_view name_of(JitRefusal reason);

struct JitStats {
  std::uint64_t processes = 0;   // with code that a file describes
  std::uint64_t files = 0;       // held, of which
  std::uint64_t following = 0;   // are read on
  std::uint64_t functions = 0;   // known now
  std::uint64_t bytes = 0;       // of memory for them
  std::uint64_t bytes_read = 0;  // of files, since the start
  std::uint64_t events = 0;      // records and lines that told something, since the start
  std::uint64_t forgotten = 0;   // functions, for want of memory
  std::uint64_t parser_restarts = 0;
  std::array<std::uint64_t, kJitRefusalCount> refused{};  // since the start
  std::map<std::string, std::uint64_t> damaged;           // records or lines, by reason
};

}  // namespace profd
