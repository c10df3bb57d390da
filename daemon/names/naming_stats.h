// How well code was named since the start of the daemon, for its status.

#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "collectors/files/debug_file_places.h"
#include "collectors/symbolizer/dwarf_frames.h"
#include "formats/symbols/code_names.h"

namespace profd {

// How well the frames of samples are named.
struct NameShares {
  std::uint64_t samples = 0;
  std::uint64_t fully_named = 0;  // samples with a name for each frame
  // The samples by where the name of their innermost frame comes from, or why it has none.
  std::array<std::uint64_t, kNameSources> by_source{};

  NameShares& operator+=(const NameShares& other) {
    samples += other.samples;
    fully_named += other.fully_named;
    for (std::size_t i = 0; i < by_source.size(); ++i) by_source[i] += other.by_source[i];
    return *this;
  }
};

// What became of the addresses that the symbolizer was asked for.
struct LineStats {
  std::uint64_t answered = 0;  // addresses with functions and lines
  // Addresses whose answer is not whole, and files that are not tried for an hour, by DwarfLoss.
  std::array<std::uint64_t, kDwarfLosses> addresses_lost{};
  std::array<std::uint64_t, kDwarfLosses> files_refused{};
  std::chrono::nanoseconds cpu_time{};
  std::uint64_t failures = 0;  // symbolizers that died or were killed

  LineStats& operator+=(const LineStats& other) {
    answered += other.answered;
    for (std::size_t i = 0; i < kDwarfLosses; ++i) {
      addresses_lost[i] += other.addresses_lost[i];
      files_refused[i] += other.files_refused[i];
    }
    cpu_time += other.cpu_time;
    failures += other.failures;
    return *this;
  }
};

// Debug files that were used, by place, and those that were not, by DebugFileRefusal. A file counts
// each time that its debug file is needed.
struct DebugFileStats {
  std::array<std::uint64_t, kDebugFilePlaceTexts.size()> found{};
  std::array<std::uint64_t, kDebugFileRefusalTexts.size()> refused{};

  DebugFileStats& operator+=(const DebugFileStats& other) {
    for (std::size_t i = 0; i < found.size(); ++i) found[i] += other.found[i];
    for (std::size_t i = 0; i < refused.size(); ++i) refused[i] += other.refused[i];
    return *this;
  }
};

// Of one worker.
struct NamingStats {
  NameShares shares;
  LineStats lines;
  DebugFileStats debug_files;
  std::uint64_t looked_up = 0;  // addresses that the parser was asked for
  std::uint64_t read_back = 0;  // addresses whose names came from windows at the start
  std::uint64_t cached_files = 0;
  std::uint64_t cached_bytes = 0;

  NamingStats& operator+=(const NamingStats& other) {
    shares += other.shares;
    lines += other.lines;
    debug_files += other.debug_files;
    looked_up += other.looked_up;
    read_back += other.read_back;
    cached_files += other.cached_files;
    cached_bytes += other.cached_bytes;
    return *this;
  }
};

}  // namespace profd
