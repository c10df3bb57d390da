// The jitdump format: its grammar, its constants, and what its writers really write.
//
// Source: Linux, tools/perf/Documentation/jitdump-specification.txt ("version 2", 2016). Where the
// writers (V8, JavaScriptCore, SpiderMonkey, CPython, HotSpot's perf agent, .NET, Erlang, LLVM,
// PHP, QEMU, Wasmtime) differ from the document, what they do is the format.
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
// A number has 4 bytes, those marked have 8, in the byte order in which `magic` reads "JiTD".
//
// The rules of reading, and what each is for:
//
// - total_size is the frame. Records lie at any alignment, some are padded to 8 within their size
//   (V8's DEBUG, CPython's UNWINDING), and nothing in a body may move where the next one begins.
//
// - Versions 1 and 2 are the same format: all write 1, old Mono wrote 2. A header may be longer
//   than 40 bytes. `pad` and `elf_machine` may hold anything (V8: 0xdeadbeef; CPython 3.13.0: 0),
//   and the header's timestamp is of another clock than the records' (V8, CPython: microseconds of
//   the day).
//
// - The file grows while it is read, by stdio's 4 KiB or by three writes a record (PHP): a record
//   that isn't whole yet waits, and so do zeros (id 0, size 0), which a preallocated file ends in.
//
// - Code is at code_addr. `vma` is 0 with LLVM.
//
// - A LOAD may have a code_size and end after its name (.NET's stubs, HotSpot's agent): code
//   without bytes. Bytes that are there but too few are damage.
//
// - code_index starts at 0 or 1 and isn't unique. `tid` may be part of a pthread_t (Erlang), `pid`
//   is one of the writer's namespace, and several pids write to one file after a fork (PHP). CLOSE
//   may come in the middle then: records after it count.
//
// - Timestamps aren't in order (JavaScriptCore writes from a queue). Flag bit 0: they are of the
//   time stamp counter.
//
// - DEBUG and UNWINDING belong to the LOAD with their code_addr: right behind them with most; with
//   LLVM's ORC an object's DEBUGs all come before all its LOADs. UNWINDING doesn't tell its
//   code_addr: it belongs to the LOAD that follows.
//
// - A DEBUG's addresses are 0x40 too high with V8 and LLVM, which make up for the ELF header of
//   old perfs; most records of such a file, and few of others, have their first line just there.
//   They aren't sorted, may lie up to 55 bytes before the code (Erlang), at its end or behind (end
//   marks, line 0), and the rest of a record may be garbage after a file name of freed memory (V8).
//
// - A file name of the one byte 0xff stands for the one before.
//
// - UNWINDING's data is eh_frame_hdr, then eh_frame in the document and with LLVM's ORC; eh_frame,
//   then eh_frame_hdr with perf's, V8's and CPython's. The header alone means that the code has
//   frame pointers: V8 writes that before every LOAD.

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

// With the record's own header.
inline constexpr std::size_t kRecordHeaderBytes = 16;
inline constexpr std::size_t kLoadBytes = 56;
inline constexpr std::size_t kMoveBytes = 64;
inline constexpr std::size_t kDebugInfoBytes = 32;
inline constexpr std::size_t kUnwindingInfoBytes = 40;

inline constexpr std::size_t kDebugEntryBytes = 16;  // before the file's name

// What writers add to the addresses of DEBUG entries, if anything, and the farthest that the first
// line of a file's code lies from that: prologues without a line are no longer.
inline constexpr std::uint64_t kLineBias = 0x40;
inline constexpr std::int64_t kMaxBiasedFirstLine = 0x50;

// How far from the code an entry may lie and still be taken for one.
inline constexpr std::uint64_t kLineSlackBytes = 0x80;

inline constexpr char kSameFileName = '\xff';

// The bounds of what is believed, none of which a real runtime comes near.
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMaxCodeBytes = std::uint64_t{256} << 20;
inline constexpr std::size_t kMaxNameBytes = 4096;  // longer names are cut
inline constexpr std::size_t kMaxNameScan = 65536;  // a name without an end by then is none
inline constexpr std::size_t kMaxLinesOfFunction = 16384;

}  // namespace profd::jitdump
