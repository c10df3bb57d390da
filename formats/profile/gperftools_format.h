// The gperftools CPU profile format: its grammar, its constants, and the rules that make both
// pprofs read a file in the same way.
//
// Source: gperftools, docs/cpuprofile-fileformat.adoc. The readers are google/pprof ("Go's" below)
// and google-pprof ("Perl's", part of gperftools up to 2.16). Where their behaviour differs from
// the document, this file describes the behaviour.
//
//     file    := header record* trailer text
//     header  := 0, header_words, version, period, 0
//     record  := count, depth, pc{depth}
//     trailer := 0, 1, 0
//     text    := (line "\n")*
//     line    := "build=" DIR
//              | START "-" LIMIT " r-xp " OFFSET " 00:00 0 " PATH
//              | START "-" LIMIT [":"] [PERMISSIONS] PATH ["(@" OFFSET ")"] [BUILD_ID]
//              | anything else, which is skipped
//
// A slot has the width of a pointer of the profiled program (4 or 8 bytes) and its byte order; the
// first two slots of the header show both. profd writes 8 bytes, little endian. `header_words` is
// the number of slots after it: 3. `period` is in microseconds for an event that is time. The pcs
// of a record start with the leaf. The trailer is a record of depth 1 whose pc is 0. "build="
// defines "$build" for the lines after it.
//
// The rules, each with its reason:
// - The period is 1 or more. Go's refuses a file whose period is 0.
// - The pc of a leaf is not 0. Perl's takes such a record for the trailer, and drops it and all
//   later ones. 0 is written as 1.
// - The pc of a caller is not 0. Both readers subtract 1 from every pc except that of the leaf, and
//   0 would wrap to the top of the address space, where Go's invents a mapping. 0 is written as 1,
//   which is read as address 0.
// - A caller's pc that is not a return address, but one that a tick, a fault or a signal
//   interrupted, is written as pc + 1. Otherwise the readers look up the instruction before it,
//   which may be in another function.
// - The pc of the first caller differs from that of the leaf. Go's drops an equal one as a copy of
//   the leaf. In a recursion both are equal when the tick hits the instruction after the recursive
//   call. So that return address is written as pc - 1. Readers then look up pc - 2, which is still
//   in the call instruction: it has at least 2 bytes on x86-64, and 4 on Arm.
// - A stack has 1 to 65536 frames. Perl's miscounts a depth of 0, and fails for more.
// - Kernel addresses are folded (profile.h). Perl's drops every pc above 2^63 - 1.
// - Decoys. Both readers try to remove the frame of libprofiler's signal handler. If at least
//   N - N/32 of the N records (integer division) have the same first caller, Go's deletes it from
//   all of them, and does so twice. Perl's repeats it as long as all records have the same first
//   caller. The profile of one hot loop has this form. So records of count 0 and depth 1 are
//   appended until no address is the first caller so often; one record without a caller already
//   stops Perl's. They have no weight. The document requires a count of 1 or more, but the readers
//   accept 0, and only a pc of 0 makes such a record the trailer.
// - A mapping line starts in the first column, has lower-case hexadecimal numbers without "0x", and
//   an inode. Perl's silently skips any other.
// - No line is longer than 64 KiB. Go's refuses a file with a longer one.
// - Only mappings with a path are written. Go's merges one without a path into its neighbour, and
//   changes the base address of the neighbour.
// - The main executable comes first. Go's takes the first mapping that has not the name of a
//   library for the main executable.

#pragma once

#include <cstddef>
#include <cstdint>

namespace profd::gperftools {

inline constexpr std::uint64_t kHeaderWords = 3;
inline constexpr std::uint64_t kVersion = 0;
inline constexpr std::size_t kHeaderSlots = 2 + kHeaderWords;
inline constexpr std::size_t kTrailerSlots = 3;

// The reader skips header words beyond 3, which Go's refuses. A count of more than 16 bits shows
// that the other byte order is the right one.
inline constexpr std::uint64_t kMaxHeaderWords = 0xffff;

inline constexpr std::uint64_t kMaxDepth = 65536;
inline constexpr std::uint64_t kMinPeriod = 1;

// Replaces an address of 0, and is the one frame of a stack without frames.
inline constexpr std::uint64_t kNoAddress = 1;

inline constexpr std::size_t kMaxLineBytes = 65535;

// Go's heuristic tolerates another first caller in one record of 32.
inline constexpr std::uint64_t kSimilarRecords = 32;

inline constexpr char kBuildKey[] = "build=";
inline constexpr char kBuildVariable[] = "$build";
inline constexpr char kDeletedSuffix[] = " (deleted)";

}  // namespace profd::gperftools
