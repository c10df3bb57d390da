// The gperftools CPU profile format: its grammar, its constants, and the rules that make two
// readers agree.
//
// Source: gperftools, docs/cpuprofile-fileformat.adoc. The readers are google/pprof (Go) and
// google-pprof (Perl, part of gperftools up to 2.16); where they differ from the document, what
// they do is the format.
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
// A slot is as wide as a pointer of the profiled program (4 or 8 bytes) and in its byte order; the
// first two slots of the header tell which. We write 8 bytes, little endian. `header_words` counts
// the slots after it: 3. `period` is in microseconds for an event that is time. The pcs of a record
// begin with the leaf. The trailer is a record of depth 1 whose pc is 0. "build=" defines "$build"
// for the lines after it.
//
// The rules, and what each cures:
//
// - The period is 1 or more. Go's refuses a file whose period is 0.
//
// - The leaf's pc is not 0. Perl's takes such a record for the trailer, and drops it and all that
//   follow. Written as 1.
//
// - No caller's pc is 0. Both readers take 1 from every pc but the leaf's, so 0 would wrap to the
//   top of the address space, where Go's invents a mapping. Written as 1, which reads as address 0.
//
// - A caller's pc that is no return address (interrupted by a tick, a fault or a signal) is written
//   as pc + 1. Else the instruction before it is charged, which may be in another function.
//
// - The first caller's pc is not the leaf's. Go's drops such a caller as a copy of the leaf. In a
//   recursion it is none, but they are equal whenever the tick hits the instruction after the
//   recursive call. So that return address is written as pc - 1. What readers then look up, pc - 2,
//   is still in the call: no call is shorter than 2 bytes on x86-64, and 4 on Arm.
//
// - A stack is 1 to 65536 frames deep. Perl's miscounts a depth of 0 and ends with an error above.
//
// - Kernel addresses are folded (profile.h). Perl's drops every pc above 2^63 - 1.
//
// - Decoys. Both readers try to remove the frame of libprofiler's signal handler. Go's does this
//   twice: where at least N - N/32 of the N records (integer division) have the same first caller,
//   it is deleted from all of them. Perl's does it while all records have the same. The profile of
//   one hot loop is just like that. So records of count 0 and depth 1 are appended until no address
//   is the first caller that often; as one record without a caller is enough to stop Perl's, that
//   cures both. They weigh nothing. The document asks for a count of 1 or more, but the readers
//   take 0, and only a pc of 0 makes such a record the trailer.
//
// - Mapping lines begin in their first column, in lower-case hexadecimal without "0x", with an
//   inode. Perl's skips all others without a word.
//
// - No line is longer than 64 KiB, else Go's refuses the file.
//
// - Only mappings with a path are written. Go's merges one without a path into its neighbour and
//   moves that one's base.
//
// - The main executable comes first. Go's takes the first mapping that isn't named like a library
//   for it.

#pragma once

#include <cstddef>
#include <cstdint>

namespace profd::gperftools {

inline constexpr std::uint64_t kHeaderWords = 3;
inline constexpr std::uint64_t kVersion = 0;
inline constexpr std::size_t kHeaderSlots = 2 + kHeaderWords;
inline constexpr std::size_t kTrailerSlots = 3;

// More header words than 3 are skipped, though Go's refuses them. A count that needs more than 16
// bits is none: that is how the byte order is told.
inline constexpr std::uint64_t kMaxHeaderWords = 0xffff;

inline constexpr std::uint64_t kMaxDepth = 65536;
inline constexpr std::uint64_t kMinPeriod = 1;

// Stands for an address of 0, and for the one frame of a stack without frames.
inline constexpr std::uint64_t kNoAddress = 1;

inline constexpr std::size_t kMaxLineBytes = 65535;

// Go's margin: one record in 32 may differ.
inline constexpr std::uint64_t kSimilarRecords = 32;

inline constexpr char kBuildKey[] = "build=";
inline constexpr char kBuildVariable[] = "$build";
inline constexpr char kDeletedSuffix[] = " (deleted)";

}  // namespace profd::gperftools
