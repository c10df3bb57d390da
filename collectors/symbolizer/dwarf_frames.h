// The functions and lines at code addresses, inlined functions included, out of the DWARF of a
// file: DWARF 2 to 5, by libdw.
//
// libdw maps the files, trusts their numbers and opens further files by itself. So this runs in the
// symbolizer's process alone (symbolizer.h): there a file that faults or loops costs one request.

#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/symbols/code_names.h"

namespace profd {

// Why the answer for an address is not whole.
enum class DwarfLoss : std::uint8_t {
  kNone,
  // Of one address.
  kNoUnit,       // no unit contains it
  kNoFunction,   // its unit has no function there: assembly code
  kNoName,       // a function has no name, or one in a dwz file that is not there
  kSplit,        // the functions of its unit are in a .dwo file, which is not read
  kNoLines,      // its unit has no lines, or malformed ones
  kTooDeep,      // functions below kMaxDwarfDepth are left out
  kCpuTime,      // the CPU time for the request was spent before
  kEntries,      // the debugging entries for the request were read before
  kAnswerBytes,  // the answer had no room
  kTooMany,      // it comes after kMaxDwarfAddresses others
  // Of the file, so of all addresses.
  kNoDwarf,
  kZstd,            // the sections are compressed with zstd, which libdw 0.188 cannot read
  kNotExecutable,   // neither a program nor a shared library
  kMalformed,       // not an ELF file, or its DWARF cannot be opened
  kTooLarge,        // over kMaxDwarfFileBytes, or its sections are once they are decompressed
  kOtherDebugFile,  // the debug file has another build id than the file
  kMemory,          // it needs more memory than the symbolizer may have
  kTimeLimit,       // the symbolizer was killed, since it did not answer in time
  kFault,           // the symbolizer died
  kBusy,            // killed symbolizers hang in files of the same owner, or the kernel is busy
};

inline constexpr std::size_t kDwarfLosses = 21;
// As in JSON and metrics.
inline constexpr std::array<std::string_view, kDwarfLosses> kDwarfLossTexts{
    "none",      "no_unit",          "no_function", "no_name",        "split",
    "no_lines",  "too_deep",         "cpu_time",    "entries",        "answer_bytes",
    "too_many",  "no_dwarf",         "zstd",        "not_executable", "malformed",
    "too_large", "other_debug_file", "memory",      "time_limit",     "fault",
    "busy"};
static_assert(static_cast<std::size_t>(DwarfLoss::kBusy) + 1 == kDwarfLosses);

[[nodiscard]] constexpr std::string_view text_of(DwarfLoss loss) {
  return kDwarfLossTexts.at(static_cast<std::size_t>(loss));
}
[[nodiscard]] constexpr bool is_of_file(DwarfLoss loss) { return loss >= DwarfLoss::kNoDwarf; }

// kDwarf or, for an address without frames, the reason as the other sources of names give it.
[[nodiscard]] NameSource source_of(DwarfLoss loss, bool has_frames);

struct DwarfAddress {
  AddressNames names;  // the source is kDwarf where there are frames
  // The line of the address where `names` has no frames, but DWARF knows the line.
  std::string file;
  std::uint32_t line = 0;
  DwarfLoss loss = DwarfLoss::kNone;

  friend bool operator==(const DwarfAddress&, const DwarfAddress&) = default;
};

// Descriptors, borrowed. -1: there is none.
struct DwarfFiles {
  int file = -1;
  int debug_file = -1;  // its DWARF comes before that of `file`
  int alt_file = -1;    // the file of dwz that the debug file, or else `file`, refers to
};

// Where DWARF refers to another file for what dwz found in several files (.gnu_debugaltlink).
struct AltLink {
  std::string path;      // as dwz wrote it; empty: there is no link
  std::string build_id;  // of that file, raw bytes

  friend bool operator==(const AltLink&, const AltLink&) = default;
};

inline constexpr std::size_t kMaxAltPathBytes = 4096;
inline constexpr std::size_t kMaxBuildIdBytes = 64;
inline constexpr std::uint64_t kMaxDwarfFileBytes = std::uint64_t{4} << 30;
inline constexpr std::uint64_t kMaxDecompressedBytes = std::uint64_t{384} << 20;
inline constexpr std::size_t kMaxDwarfAddresses = 4096;             // of a request
inline constexpr std::size_t kMaxDwarfDepth = kMaxFramesOfAddress;  // of entries below a unit

struct DwarfLimits {
  std::chrono::nanoseconds cpu_time{std::chrono::seconds(1)};
  std::uint64_t entries = 5'000'000;
  std::size_t answer_bytes = std::size_t{16} << 20;  // about as sandbox::encode() writes them
  std::uint64_t decompressed_bytes = kMaxDecompressedBytes;  // of all sections of one file
};

// One answer for each address, in their order. Addresses are virtual ones of the file, the most
// important first: the units are read in the order of their first address until the limits end
// that. What one call of libdw takes can exceed the CPU time: decoding the lines of a unit.
// std::bad_alloc where memory is short.
[[nodiscard]] std::vector<DwarfAddress> find_dwarf_frames(const DwarfFiles& files,
                                                          std::span<const std::uint64_t> addresses,
                                                          const DwarfLimits& limits);

// Of the debug file, or else of the file.
[[nodiscard]] AltLink find_alt_link(const DwarfFiles& files);

}  // namespace profd
