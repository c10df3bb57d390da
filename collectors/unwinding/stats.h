// What unwinding by tables costs and can't do, for status.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace profd {

// Why a file has no table, counted by file.
enum class TableRefusal : std::uint8_t {
  kVanished,     // nothing could be opened, or nothing is: no regular file, or one on FUSE
  kChanged,      // it was written to while it was read
  kMalformed,    // no ELF file, or one that leads out of itself
  kUnsupported,  // another machine's, or without code
  kTooLarge,     // over a limit of the parser
  kTimeout,      // over the parser's time limit, or its file system doesn't answer
  kParserDied,   // the parser died of it, or its answer made no sense
  kOverMemory,   // tables in use take up all memory, entries or rules
  kOverShare,    // the same, of what files of this owner may take up
  kQueueFull,    // too many files were waiting
};
inline constexpr std::size_t kTableRefusalCount = 10;
[[nodiscard]] std::string_view name_of(TableRefusal reason);

struct UnwindStats {
  std::uint64_t tables = 0;  // different ones, each of one or more files
  std::uint64_t files = 0;   // with a table
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;                                  // of tables
  std::uint64_t arena_bytes = 0;                            // kernel memory made for them so far
  std::uint64_t cap_bytes = 0;                              // its limit
  std::uint64_t rules = 0;                                  // in the dictionary
  std::uint64_t evicted = 0;                                // tables, since the start
  std::uint64_t loading = 0;                                // files that wait for their table
  std::array<std::uint64_t, kTableRefusalCount> refused{};  // since the start
  std::uint64_t deferred_waiting = 0;                       // stacks that wait for a table
  std::uint64_t deferred_done = 0;       // handed on with all that could be found
  std::uint64_t deferred_abandoned = 0;  // handed on before the table was there
  std::uint64_t parser_restarts = 0;
};

}  // namespace profd
