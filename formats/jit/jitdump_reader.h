// Reads a jitdump as it grows. jitdump_format.h has the grammar and what writers make of it.
//
// read_jitdump() is a pure function from bytes and a state to events and the next state: nothing is
// kept but the few numbers of JitDumpState, so each call may be in another process. The bytes of
// code, lines and unwind data stay in the file; events say where.
//
// A caller's loop, over a file that another user writes (pread only, never mmap):
//
//     JitDumpState state;
//     for (;;) {
//       size = pread(fd, buffer, max(kMinJitDumpRead, ...), state.offset);
//       events = read_jitdump({buffer, size}, file size by fstat, state);
//       if (state.offset is where it was) wait until the file grows;
//     }

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/base/result.h"
#include "formats/jit/jitdump_format.h"

namespace profd {

// What costs a record, or the file. Counted, never an error: what comes after still counts.
enum class JitDumpDamage : std::uint8_t {
  kShortRecord,    // smaller than its fixed part
  kHugeRecord,     // over jitdump::kMaxRecordBytes
  kBadName,        // no end in the record, or in its first 64 KiB
  kBadCodeSize,    // code bytes beyond the record
  kBadAddress,     // a range that wraps, is over kMaxCodeBytes, or lies in the kernel's half
  kBadSizes,       // unwind data, or more lines than fit, beyond the record
  kUnknownRecord,  // an id that isn't known
  kLostFrame,      // a total_size below 16: nothing after it can be found. Once, and it is the last
  kCount,
};
inline constexpr std::size_t kJitDumpDamages = static_cast<std::size_t>(JitDumpDamage::kCount);
[[nodiscard]] std::string_view name_of(JitDumpDamage damage);  // "short_record"

using JitDumpDamageCounts = std::array<std::uint64_t, kJitDumpDamages>;

// Where reading goes on, and what is known of the file. Plain numbers of any value are safe: a
// state that a broken parser sent makes wrong events, nothing worse.
struct JitDumpState {
  std::uint64_t offset = 0;  // in the file, of the next byte to read
  std::uint64_t flags = 0;
  // DEBUG records whose first line lies as far behind their code as a bias makes it, minus all
  // others: what line_bias() is told by.
  std::int64_t line_bias_votes = 0;
  std::uint64_t last_timestamp = 0;  // the highest yet, in the records' clock
  // The UNWINDING record that waits for its LOAD; 0 bytes: none.
  std::uint64_t unwinding_offset = 0;
  std::uint64_t unwinding_bytes = 0;
  std::uint32_t pid = 0;          // the header's, in the writer's namespace
  std::uint32_t elf_machine = 0;  // the header's, which may be 0
  bool header_read = false;
  bool big_endian = false;
  bool frame_lost = false;  // no more events will come

  [[nodiscard]] bool has_arch_timestamps() const {
    return (flags & jitdump::kFlagArchTimestamp) != 0;
  }
  // To be taken from the addresses of DEBUG entries: 0 or 0x40. Best asked when all was read.
  [[nodiscard]] std::uint64_t line_bias() const;
};

// Part of the file. 0 bytes: there is none.
struct JitFileRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const JitFileRange&, const JitFileRange&) = default;
};

enum class JitDumpEventKind : std::uint8_t {
  kLoad,
  kMove,
  kDebugInfo,      // of an address whose LOAD comes in a later call
  kUnwindingInfo,  // of a whole object (LLVM's ORC): its FDEs tell the addresses
  kClose,
};

struct JitDumpEvent {
  JitDumpEventKind kind = JitDumpEventKind::kLoad;
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  std::uint64_t timestamp = 0;    // as written: see has_arch_timestamps()
  std::uint64_t address = 0;      // of the code; of a MOVE: where it is from now on
  std::uint64_t old_address = 0;  // of a MOVE
  std::uint64_t code_bytes = 0;   // never 0 in a LOAD or MOVE
  std::string_view name;          // of a LOAD: any bytes but NUL; borrowed from the caller's buffer
  JitFileRange code;              // the bytes of code
  JitFileRange debug_info;        // a record, for decode_jit_lines()
  JitFileRange unwinding_info;    // a record, for split_unwinding_info(); none: frame pointers
};

struct JitDumpEvents {
  std::vector<JitDumpEvent> events;  // in the file's order, kDebugInfo last
  JitDumpDamageCounts damage{};
  std::uint64_t records = 0;  // whole ones that were passed, whatever they were
};

// A call that is given this much, or all that the file has, gets on by a record at least.
inline constexpr std::size_t kMinJitDumpRead = jitdump::kMaxNameScan + jitdump::kLoadBytes + 1;

// `bytes` are those of the file from state.offset on, as many as the caller has; `file_bytes` is
// the size of the whole file. state.offset moves behind the last record that was read (and beyond
// `bytes`, where that one ends there). Errors: kMalformed for a file that is no jitdump, which
// doesn't become one. A file with less than a header is no error.
[[nodiscard]] Result<JitDumpEvents> read_jitdump(std::string_view bytes, std::uint64_t file_bytes,
                                                 JitDumpState& state);

// Whether bytes at the start of a file are a jitdump's magic, in either byte order.
[[nodiscard]] bool is_jitdump(std::string_view bytes);

struct JitLine {
  std::uint32_t code_offset = 0;  // from the start of the code
  std::uint32_t line = 0;
  std::uint32_t discriminator = 0;  // the column with V8 and SpiderMonkey
  std::string_view file;            // borrowed from the record

  friend bool operator==(const JitLine&, const JitLine&) = default;
};

// The lines of a DEBUG record (JitDumpEvent::debug_info, its bytes read from the file): sorted by
// offset, one each (the last written), within the code; end marks left out. What lies before the
// code stands for its first byte. Stops at the first entry that can't be one.
//
// V8 writes the names of scripts that it has freed: the first 16 bytes are the allocator's by then.
// With `script`, a name of its length that is equal from there on is the script's.
[[nodiscard]] std::vector<JitLine> decode_jit_lines(std::string_view record,
                                                    const JitDumpState& state,
                                                    std::uint64_t code_bytes,
                                                    std::string_view script = {});

// The script in V8's name of a function, "JS:*f /srv/a.js:1:2"; empty: there is none, or it is too
// short to be known again without its first 16 bytes.
[[nodiscard]] std::string_view jit_script_of(std::string_view function);

// The unwind data of an UNWINDING record, its two parts told apart. Views into the record.
struct JitUnwindingInfo {
  std::string_view eh_frame;
  std::string_view eh_frame_hdr;
  bool header_first = false;  // the document's order, which only LLVM's ORC writes
};

// kMalformed where sizes or the header make no sense, and where there is no eh_frame.
[[nodiscard]] Result<JitUnwindingInfo> split_unwinding_info(std::string_view record,
                                                            const JitDumpState& state);

// Where the pc-relative pointers of such an eh_frame assume it to lie: perf's image has it behind
// the code, at the next multiple of 8. (ORC's pointers are absolute.)
[[nodiscard]] std::uint64_t assumed_eh_frame_address(std::uint64_t code_address,
                                                     std::uint64_t code_bytes);

// The fields of the kernel's perf_event_mmap_page of these names, valid where cap_user_time_zero
// is set.
struct TscConversion {
  std::uint64_t time_zero = 0;
  std::uint32_t time_mult = 0;
  std::uint16_t time_shift = 0;
};

// Nanoseconds of perf's clock at a value of the time stamp counter.
[[nodiscard]] std::uint64_t tsc_to_ns(std::uint64_t tsc, const TscConversion& conversion);

}  // namespace profd
