// Perf maps: the names of JIT code as text, /tmp/perf-PID.map, one function a line.
//
//     line := ["0x"] START " " ["0x"] SIZE " " NAME "\n"
//
// Source: Linux, tools/perf/Documentation/jit-interface.txt; START and SIZE are hexadecimal. NAME
// is all up to the end of the line: blanks (HotSpot), UTF-8 (CPython), any bytes. HotSpot prefixes
// both numbers, Erlang the first. One address may come again and again (V8), and a line says
// nothing of when: its time is that of its reading.
//
// Most writers append; HotSpot's `jcmd PID Compiler.perfmap` replaces the content. A reader tells
// by the last bytes that it read: those of another content aren't there any more.
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

// How many bytes before PerfMapState::offset a caller has to give, too.
inline constexpr std::size_t kPerfMapOverlapBytes = 64;

// Any values are safe.
struct PerfMapState {
  std::uint64_t offset = 0;        // in the file, of the next line to read
  std::uint64_t overlap_hash = 0;  // of the bytes before it
  bool in_long_line = false;       // up to the next line break nothing counts

  // Where the bytes for the next call start.
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
  std::uint64_t bad_lines = 0;   // not of that shape, or of a range that can't be
  std::uint64_t long_lines = 0;  // over kMaxPerfMapLineBytes
  // The file isn't the one that was read before: a new epoch. Nothing was read, and the state is
  // that of a new file.
  bool rewritten = false;
};

// `bytes` are those of the file from state.read_from() on. A last line without its end waits for
// more. Gets on where it is given kPerfMapOverlapBytes + kMaxPerfMapLineBytes, or all there is.
[[nodiscard]] PerfMapLines read_perf_map(std::string_view bytes, PerfMapState& state);

}  // namespace profd
