// The gperftools CPU profile format: its grammar, its constants, and the rules that make two
// readers agree.
//
// Source: gperftools, docs/cpuprofile-fileformat.adoc. The readers are google/pprof (Go) and
// google-pprof (Perl, part of gperftools up to 2.16); where they differ from the document, what
// they do is the format.
//
//     file    := header record* trailer text
//     header  := 0, header_words, version, period, 0        header_words counts the slots after it:
//     3 record  := count, depth, pc{depth}                    leaf first trailer := 0, 1, 0 a
//     record of depth 1 whose pc is 0 text    := line*                                      every
//     line ends in a newline line    := "build=" DIR                               defines "$build"
//     for the lines after it
//              | START "-" LIMIT " r-xp " OFFSET " 00:00 0 " PATH
//              | START "-" LIMIT [":"] [PERMISSIONS] PATH ["(@" OFFSET ")"] [BUILD_ID]
//              | anything else, which is skipped
//
// A slot is as wide as a pointer of the profiled program (4 or 8 bytes) and in its byte order; the
// first two slots of the header tell which. `period` is in microseconds for an event that is time.
// We write 8 bytes, little endian.
//
// The rules, and what each cures:
//
// - period >= 1. Go's pprof refuses a file whose period is 0.
// - Leaf pc != 0. Perl's takes such a record for the trailer and drops it and all that follow.
// Written as 1.
// - Caller pc != 0. Both readers take 1 from every pc but the leaf's, so 0 would wrap to the top of
// the address space,
//   where Go's invents a mapping. Written as 1, which reads as address 0.
// - A caller's pc that is no return address (interrupted by a tick, a fault or a signal) is written
// as pc + 1, else the
//   instruction before it is charged, which may be in another function.
// - Caller 1 != leaf. Go's drops caller 1 as a copy of the leaf where they are equal. In recursion
// they are, whenever the
//   tick hits the instruction after the recursive call. Such a return address is written as pc - 1:
//   what readers then look up, pc - 2, is still in the call, which is at least 2 bytes long (4 on
//   Arm).
// - 1 <= depth <= 65536. Perl's ends with an error above that, and miscounts a depth of 0.
// - Kernel addresses are folded (profile.h): Perl's drops every pc above 2^63 - 1.
// - Decoys. Both readers try to remove the frame of libprofiler's signal handler: Go's deletes
// caller 1 from all stacks
//   where at least N - N/32 of the N records have the same (integer division, twice over), Perl's
//   while all have the same. A real profile of one hot loop is just that. So records of count 0 and
//   depth 1 are appended until no address is caller 1 that often, which keeps Perl's from doing it
//   too: one record without a caller is enough for it. They weigh nothing. All three readers take a
//   count of 0, though the document asks for 1 or more; only count 0 with depth 1 and pc 0 ends the
//   records.
// - Mapping lines start in column 1, in lower-case hexadecimal without "0x", with an inode, at most
// 16 digits an
//   address: Perl's skips other lines without a word. No line is longer than 64 KiB: Go's then
//   refuses the file.
// - Only mappings with a path: Go's merges one without into its neighbour, and moves that one's
// base.
// - The main executable comes first: Go's takes the first mapping that is named unlike a library
// for it.

#pragma once

#include <cstddef>
#include <cstdint>

namespace profd::gperftools {

inline constexpr std::uint64_t kHeaderWords = 3;
inline constexpr std::uint64_t kVersion = 0;
inline constexpr std::size_t kHeaderSlots = 2 + kHeaderWords;
inline constexpr std::size_t kTrailerSlots = 3;

// Go's readers know 3 alone. More is skipped, but a count that needs more than 16 bits is no
// header: that is how the byte order is told.
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
