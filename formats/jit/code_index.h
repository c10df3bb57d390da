// What JIT code lay where, and when: the functions of one address space by address and time.
//
// A generation is the code of one function at one place from its birth on. At an address, it lives
// until newer code lies on that very address: a newer generation that overlaps it in part trims it,
// one that covers it ends it. Nothing is written down for that. The generation that counts at an
// address and a time is the youngest of those which cover the address and were born by then, so the
// order in which records come doesn't matter, and a late record names earlier samples too.
// What ends without new code (munmap, exec, the place that a MOVE left) is a generation without a
// name.
//
// Where nothing lived, the earliest later generation counts: runtimes that are asked to write their
// names at some time in their life stamp all their code with that time.
//
// Where there are too many, old ones are forgotten (jit_forgetting.h): an address then has no name
// at times for which that may have been lost, never another's.
//
// Times are nanoseconds of the samples' clock; addresses those of the process. Not thread-safe: the
// io thread's. A fork's child starts with all that its parent has and shares the memory of it.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/jit/jitdump_reader.h"

namespace profd {

class JitGenerations;
struct JitGeneration;
struct JitLayerRow;

struct JitCode {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // 1 to jitdump::kMaxCodeBytes
  std::uint64_t born_ns = 0;
  std::uint64_t serial = 0;  // by at(): unique in an index
  std::uint16_t source = 0;  // the caller's number of the file
  std::string_view name;     // as written; by at(): until the index is changed
  JitFileRange code;         // in that file: the bytes, if it has them
  JitFileRange debug_info;   // and the records of its lines
  JitFileRange unwinding_info;
};

enum class JitCodeLoss : std::uint8_t {
  kForgotten,    // to make room: what ended long ago, then the oldest that nobody asked for lately;
                 // and what comes when thousands beside it are younger
  kUnknownMove,  // a MOVE of what isn't there
  kCount,
};
inline constexpr std::size_t kJitCodeLosses = static_cast<std::size_t>(JitCodeLoss::kCount);
[[nodiscard]] std::string_view name_of(JitCodeLoss loss);  // "forgotten"

struct JitCodeLimits {
  std::size_t generations = std::size_t{1} << 18;
  std::size_t name_bytes = std::size_t{32} << 20;
};

class JitCodeIndex {
 public:
  explicit JitCodeIndex(const JitCodeLimits& limits = {});
  JitCodeIndex(JitCodeIndex&&) noexcept;
  JitCodeIndex& operator=(JitCodeIndex&&) noexcept;
  ~JitCodeIndex();

  // A LOAD, or a perf map's line. What lies there already under the same name and with the same
  // size, untouched since, is the same code told again (a runtime's threads each tell all).
  void add(const JitCode& code);
  // A MOVE of the code that starts at `from`, at that time.
  void move(std::uint64_t from, std::uint64_t to, std::uint64_t time_ns);
  // Nothing lives in the range from that time on: munmap. bytes may reach the end of the address
  // space: 2^64 - 1 for an exec. Kept also where no code is known: a record of the time before may
  // come late.
  void end(std::uint64_t address, std::uint64_t bytes, std::uint64_t time_ns);

  // That all records of times before this have been added. Files are in the order of time but for a
  // few writers' few records, so each record tells this by its own time; the end of a process does
  // by the highest there is.
  void seen_until(std::uint64_t time_ns);
  // Whether at() will give the same answer for that time for ever.
  [[nodiscard]] bool is_final(std::uint64_t time_ns) const { return time_ns < seen_until_ns_; }

  // What counted at an address and a time. What is asked for is forgotten last.
  [[nodiscard]] std::optional<JitCode> at(std::uint64_t address, std::uint64_t time_ns) const;
  // Of an index that is told the same code by another file: what it has at that address and time,
  // if it was told of `known` (by range and name) before that, and if that is not older.
  [[nodiscard]] std::optional<JitCode> successor_of(const JitCode& known, std::uint64_t address,
                                                    std::uint64_t time_ns) const;
  // Whether nothing was told of the range that was born after that time. False as well where it
  // takes too long to tell.
  [[nodiscard]] bool is_bare_since(std::uint64_t address, std::uint64_t bytes,
                                   std::uint64_t time_ns) const;
  // Whether any generation of any time covers the address.
  [[nodiscard]] bool knows(std::uint64_t address) const;

  // The index of a child that was forked now.
  [[nodiscard]] JitCodeIndex fork();

  [[nodiscard]] std::size_t functions() const;     // generations that have a name
  [[nodiscard]] std::size_t memory_bytes() const;  // shared ones count whole
  [[nodiscard]] std::uint64_t merged() const { return merged_; }
  [[nodiscard]] const std::array<std::uint64_t, kJitCodeLosses>& losses() const { return losses_; }

 private:
  [[nodiscard]] JitLayerRow youngest(std::uint64_t address, std::uint64_t time_ns) const;
  [[nodiscard]] JitLayerRow earliest_after(std::uint64_t address, std::uint64_t time_ns) const;
  [[nodiscard]] bool is_told_again(const JitGeneration& made, std::string_view name) const;
  [[nodiscard]] std::vector<JitLayerRow> by_age() const;
  void append(const JitGeneration& generation, std::string_view name);
  void make_room(std::size_t name_bytes);

  JitCodeLimits limits_;
  std::vector<std::shared_ptr<const JitGenerations>> shared_;  // with forks
  std::unique_ptr<JitGenerations> own_;
  std::uint64_t next_serial_ = 1;
  std::uint64_t seen_until_ns_ = 0;
  std::uint64_t complete_since_ns_ = 0;  // what ended before may be forgotten
  std::uint64_t merged_ = 0;
  std::array<std::uint64_t, kJitCodeLosses> losses_{};
};

}  // namespace profd
