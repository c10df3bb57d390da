// Counters of unwinding by tables, for the status.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace profd {

// Why a file has no table.
enum class TableRefusal : std::uint8_t {
  kVanished,     // it could not be opened, is not a regular file, or is on FUSE
  kChanged,      // it changed while it was read
  kMalformed,    // not an ELF file, or offsets beyond its end
  kUnsupported,  // for another machine, or without code
  kTooLarge,     // over a limit of the parser
  kTimeout,      // over the parser's time limit, or the file system does not respond
  kParserDied,   // the parser died, or its answer was malformed
  kOverMemory,   // memory, map entries or rules are used up by tables that are in use
  kOverShare,    // the same, and its user is over the share
  kQueueFull,    // too many files were queued
};
inline constexpr std::size_t kTableRefusalCount = 10;
[[nodiscard]] constexpr std::string_view name_of(TableRefusal reason) {
  constexpr std::array<std::string_view, kTableRefusalCount> kNames = {
      "vanished", "changed",     "malformed",   "unsupported", "too_large",
      "timeout",  "parser_died", "over_memory", "over_share",  "queue_full"};
  return kNames[static_cast<std::size_t>(reason)];
}

struct UnwindStats {
  std::uint64_t tables = 0;  // different tables; files can share one
  std::uint64_t files = 0;   // with a table
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;                                  // of tables
  std::uint64_t arena_bytes = 0;                            // kernel memory allocated for them
  std::uint64_t cap_bytes = 0;                              // its limit
  std::uint64_t rules = 0;                                  // in the dictionary
  std::uint64_t evicted = 0;                                // tables, since the start
  std::uint64_t loading = 0;                                // files whose table is being made
  std::array<std::uint64_t, kTableRefusalCount> refused{};  // since the start
  std::uint64_t deferred_waiting = 0;                       // stacks that wait for a table
  std::uint64_t deferred_done = 0;                          // delivered with their tables
  std::uint64_t deferred_abandoned = 0;                     // delivered without waiting longer
  std::uint64_t parser_restarts = 0;
};

}  // namespace profd
