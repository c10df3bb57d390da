// Perf maps: the names of JIT code as text, /tmp/perf-PID.map, one function a line.
//
//     line := ["0x"] START " " ["0x"] SIZE " " NAME "\n"
//
// Source: Linux, tools/perf/Documentation/jit-interface.txt; START and SIZE are hexadecimal. NAME
// goes up to the end of the line and has any bytes: blanks (HotSpot), UTF-8 (CPython). HotSpot
// prefixes both numbers, Erlang the first. An address may have many lines (V8). A line has no time;
// the time at which it is read counts.
//
// Most writers append; HotSpot's `jcmd PID Compiler.perfmap` replaces the content. The reader
// recognises this by the last bytes that it read, which are then different.
//
// read_perf_map() is a pure function, as read_jitdump() is: see there for the caller's loop.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace profd {

inline constexpr std::size_t kMaxPerfMapNameBytes = 4096;  // longer ones are cut
inline constexpr std::size_t kMaxPerfMapLineBytes = 65536;

// How many bytes before PerfMapState::offset the caller has to pass too.
inline constexpr std::size_t kPerfMapOverlapBytes = 64;

// How far the file is read. Any values are safe.
struct PerfMapState {
  std::uint64_t offset = 0;        // of the next line to read
  std::uint64_t overlap_hash = 0;  // of the bytes before it
  bool in_long_line = false;       // all up to the next line break is skipped

  // The offset of the bytes for the next call.
  [[nodiscard]] std::uint64_t read_from() const {
    return offset < kPerfMapOverlapBytes ? 0 : offset - kPerfMapOverlapBytes;
  }
};

struct PerfMapLine {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // never 0
  std::string_view name;    // not empty, no NUL; borrowed from the caller's buffer

  friend bool operator==(const PerfMapLine&, const PerfMapLine&) = default;
};

struct PerfMapLines {
  std::vector<PerfMapLine> lines;
  std::uint64_t bad_lines = 0;   // of another form, or with an invalid range
  std::uint64_t long_lines = 0;  // over kMaxPerfMapLineBytes
  // The content was replaced. Nothing was read, and the state is that of a new file.
  bool rewritten = false;
};

// `bytes` are the file's from state.read_from() on. A last line without its end is read later. A
// call with kPerfMapOverlapBytes + kMaxPerfMapLineBytes, or all that the file has, makes progress.
[[nodiscard]] PerfMapLines read_perf_map(std::string_view bytes, PerfMapState& state);

}  // namespace profd
