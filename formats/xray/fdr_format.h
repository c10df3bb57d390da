// The Flight Data Recorder traces of LLVM XRay, versions 1 to 5: the grammar, the constants, and
// the differences between the writers and LLVM's document.
//
// Source: LLVM, docs/XRayFDRFormat.rst (version 1, 2017-07-20, not updated since) and
// compiler-rt/lib/xray (xray_fdr_log_records.h, xray_fdr_logging.cpp) as released in LLVM 5 to 19.
// Where the two differ, profd follows the runtime.
//
//     trace    := header buffer*
//     header   := version u16, type u16, flags u32, frequency_hz u64, buffer_bytes u64, spare u64
//     buffer   := preamble record* END_OF_BUFFER padding           version 1: buffer_bytes long
//              |  BUFFER_EXTENTS preamble record*                  versions 2 to 5
//     preamble := NEW_BUFFER WALL_CLOCK [PID] [NEW_CPU]
//     record   := function | metadata | event payload
//
// A metadata record has 16 bytes: a bit that is 1, seven bits of kind, 15 bytes of data. A function
// record has 8 bytes: a bit that is 0, three bits of action, 28 bits of function id, and the ticks
// since the previous record (u32). The first bit is the lowest one of the first byte in a
// little-endian trace, the highest one in a big-endian trace. Records are not aligned, since an
// event's payload may have any size.
//
//     kind             data, by offset in the record                            versions
//     0 NEW_BUFFER     1 thread i32 (the document says 2 bytes)                 all
//     1 END_OF_BUFFER                                                           1
//     2 NEW_CPU        1 CPU u16 (mod 256), 3 ticks u64                         all
//     3 TICKS          1 ticks u64 ("TSCWrap")                                  all
//     4 WALL_CLOCK     1 seconds i64, 9 microseconds i32, CLOCK_MONOTONIC       all
//     5 CUSTOM_EVENT   1 bytes i32, 5 ticks u64                                 1 to 3
//                      ... 13 CPU u16                                           4
//                      1 bytes i32, 5 delta i32                                 5
//     6 ARGUMENT       1 value u64                                              all
//     7 BUFFER_EXTENTS 1 bytes u64 that follow this record                      2 to 5
//     8 TYPED_EVENT    1 bytes i32, 5 ticks u64, 13 type u16                    2 to 4
//                      1 bytes i32, 5 delta i32, 9 type u16                     5
//     9 PID            1 process i32                                            3 to 5
//
// What a reader must know of the writers:
// - The unused bytes of a record are stack content of the writer. They have no meaning.
// - A function's delta counts from the last ticks of the buffer. NEW_CPU and TICKS set these ticks;
//   a function and, in version 5 only, an event add to them.
// - Version 1 writes NEW_CPU only in a thread's first buffer. The first delta of a later buffer
//   counts from the end of the thread's previous buffer.
// - Until version 3 an entry with arguments has the action of a plain entry. An ARGUMENT behind any
//   entry belongs to that entry.
// - The ticks of a custom event are random until version 3. The reader uses those of the record
//   before it.
// - Version 5 counts a typed event as 16 bytes shorter than it is, so each typed event cuts 16
// bytes
//   off the end of its buffer, mostly within a record.
// - Buffers have the order of their slots, not of time. When a buffer is released, its content is
//   listed in another slot, so some buffers are there twice and others are missing. The trace of a
//   forked child repeats its parent's buffers.
// - No record marks a buffer that was used again, or a new session. An exit without an entry is the
//   only sign.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace profd::xray {

inline constexpr std::uint16_t kMinVersion = 1;
inline constexpr std::uint16_t kMaxVersion = 5;
inline constexpr std::uint16_t kTypeFdr = 1;

inline constexpr std::size_t kHeaderBytes = 32;
inline constexpr std::size_t kFunctionBytes = 8;
inline constexpr std::size_t kMetadataBytes = 16;

// NEW_BUFFER, WALL_CLOCK, PID and two NEW_CPU (of some version 2 writers), behind BUFFER_EXTENTS.
inline constexpr std::size_t kMaxPreambleBytes = 6 * kMetadataBytes;

enum class Kind : std::uint8_t {
  kNewBuffer = 0,
  kEndOfBuffer = 1,
  kNewCpu = 2,
  kTicks = 3,
  kWallClock = 4,
  kCustomEvent = 5,
  kArgument = 6,
  kBufferExtents = 7,
  kTypedEvent = 8,
  kPid = 9,
};
inline constexpr std::uint8_t kKinds = 10;

enum class Action : std::uint8_t {
  kEnter = 0,
  kExit = 1,
  kTailExit = 2,  // the function jumps to another one, which becomes a callee of its caller
  kEnterWithArguments = 3,
};
inline constexpr std::uint8_t kActions = 4;

inline constexpr unsigned kFunctionIdBits = 28;
inline constexpr std::uint32_t kMaxFunctionId = (std::uint32_t{1} << kFunctionIdBits) - 1;

// Ids of a process with instrumented shared objects (LLVM 20) have the object in the high bits and
// the function in the low bits. A trace keeps 4 of the object's 8 bits. Object 0 is the program.
inline constexpr unsigned kObjectShift = 24;
inline constexpr std::uint32_t kFunctionOfObject = (std::uint32_t{1} << kObjectShift) - 1;

// The version and byte order decide how a record is read.
struct Format {
  std::uint16_t version = kMaxVersion;
  std::endian order = std::endian::little;

  friend bool operator==(const Format&, const Format&) = default;
};

}  // namespace profd::xray
