// The jitdump format: its grammar, its constants, and what its writers write.
//
// Source: Linux, tools/perf/Documentation/jitdump-specification.txt ("version 2", 2016). Where the
// writers (V8, JavaScriptCore, SpiderMonkey, CPython, HotSpot's perf agent, .NET, Erlang, LLVM,
// PHP, QEMU, Wasmtime) differ from the document, the format is what they write.
//
//     file      := header record*
//     header    := magic version total_size elf_machine pad pid timestamp8 flags8 {...total_size}
//     record    := id total_size timestamp8 body {...total_size}
//     LOAD      := pid tid vma8 code_addr8 code_size8 code_index8 NAME "\0" code{code_size}
//     MOVE      := pid tid vma8 old_code_addr8 new_code_addr8 code_size8 code_index8
//     DEBUG     := code_addr8 nr_entry8 entry*
//     entry     := addr8 line discriminator FILE "\0"
//     CLOSE     :=
//     UNWINDING := unwind_data_size8 eh_frame_hdr_size8 mapped_size8 data{unwind_data_size}
//
// A number has 4 bytes, or 8 where the grammar says so, in the byte order in which `magic` reads
// "JiTD".
//
// The rules of reading, and the writers that need them:
// - total_size alone says where the next record starts. Records lie at any alignment, and some are
//   padded to 8 within their size (V8's DEBUG, CPython's UNWINDING).
// - Versions 1 and 2 are the same format: all write 1, old Mono wrote 2. A header may be longer
//   than 40 bytes. `pad` and `elf_machine` may have any value (V8: 0xdeadbeef; CPython 3.13.0: 0).
//   The header's timestamp has another clock than the records' (V8, CPython: microseconds of the
//   day).
// - The file grows while it is read, by stdio's 4 KiB or by three writes a record (PHP). A record
//   that isn't complete yet is read later. So are zeros (id 0, size 0), with which a preallocated
//   file ends.
// - Code lies at code_addr. `vma` is 0 with LLVM.
// - A LOAD may have a code_size and end after its name (.NET's stubs, HotSpot's agent): the code's
//   bytes are not known. A LOAD with only some of its code bytes is malformed.
// - code_index starts at 0 or 1 and isn't unique. `tid` may be part of a pthread_t (Erlang). `pid`
//   is a pid of the writer's namespace; after a fork, several pids write to one file (PHP). A CLOSE
//   may then come in the middle: the records after it count.
// - Timestamps aren't in order (JavaScriptCore writes from a queue). Where flag bit 0 is set, they
//   are counts of the time stamp counter.
// - A DEBUG belongs to the LOAD with its code_addr. Most writers write it directly before that;
//   LLVM's ORC writes all DEBUGs of an object before all its LOADs. An UNWINDING has no code_addr:
//   it belongs to the LOAD that follows.
// - V8 and LLVM write DEBUG addresses that are 0x40 too high, to compensate for the ELF header of
//   old versions of perf; most records of such a file, and few of others, have their first line
//   there. DEBUG addresses aren't sorted, may lie up to 55 bytes before the code (Erlang), at its
//   end or behind it (end marks, line 0). After a file name of freed memory, the rest of a record
//   may be garbage (V8).
// - A file name that is the byte 0xff stands for the one before.
// - UNWINDING's data is eh_frame_hdr, then eh_frame in the document and with LLVM's ORC, but
//   eh_frame, then eh_frame_hdr with perf, V8 and CPython. A header alone means that the code has
//   frame pointers: V8 writes one before every LOAD.

#pragma once

#include <cstddef>
#include <cstdint>

namespace profd::jitdump {

inline constexpr std::uint32_t kMagic = 0x4a695444;  // "JiTD", first byte highest
inline constexpr std::uint32_t kMaxVersion = 2;
inline constexpr std::uint64_t kFlagArchTimestamp = 1;

inline constexpr std::size_t kHeaderBytes = 40;
inline constexpr std::size_t kMaxHeaderBytes = 4096;

enum class RecordId : std::uint32_t {
  kLoad = 0,
  kMove = 1,
  kDebugInfo = 2,
  kClose = 3,
  kUnwindingInfo = 4,
};

// Sizes that include the record's header.
inline constexpr std::size_t kRecordHeaderBytes = 16;
inline constexpr std::size_t kLoadBytes = 56;
inline constexpr std::size_t kMoveBytes = 64;
inline constexpr std::size_t kDebugInfoBytes = 32;
inline constexpr std::size_t kUnwindingInfoBytes = 40;

inline constexpr std::size_t kDebugEntryBytes = 16;  // before the file's name

// What some writers add to the addresses of DEBUG entries, and where the first line of their code
// lies at most: a prologue without a line is no longer.
inline constexpr std::uint64_t kLineBias = 0x40;
inline constexpr std::int64_t kMaxBiasedFirstLine = 0x50;

// An entry that lies farther from the code is garbage.
inline constexpr std::uint64_t kLineSlackBytes = 0x80;

inline constexpr char kSameFileName = '\xff';

// The limits of what is accepted; no real runtime comes near any of them.
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMaxCodeBytes = std::uint64_t{256} << 20;
inline constexpr std::size_t kMaxNameBytes = 4096;  // longer names are cut
inline constexpr std::size_t kMaxNameScan = 65536;  // a longer name is malformed
inline constexpr std::size_t kMaxLinesOfFunction = 16384;

}  // namespace profd::jitdump
