// Reads a jitdump as it grows. jitdump_format.h has the grammar.
//
// read_jitdump() is a pure function from bytes and a state to events and the next state. The few
// numbers of JitDumpState are all that is kept, so each call may be in another process. Code bytes,
// lines and unwind data stay in the file; events say where they are.
//
// The caller's loop, for a file that another user writes (pread only, never mmap):
//
//     JitDumpState state;
//     for (;;) {
//       size = pread(fd, buffer, max(kMinJitDumpRead, ...), state.offset);
//       events = read_jitdump({buffer, size}, file size by fstat, state);
//       if (state.offset has not changed) wait until the file grows;
//     }

#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/base/result.h"
#include "formats/jit/code.h"
#include "formats/jit/jitdump_format.h"

namespace profd {

// Why a record is malformed. It is dropped and counted; the records after it are read.
enum class JitDumpFault : std::uint8_t {
  kShortRecord,    // shorter than its fixed part
  kHugeRecord,     // over jitdump::kMaxRecordBytes
  kBadName,        // no end in the record, or in its first 64 KiB
  kBadCodeSize,    // code bytes beyond the record
  kBadAddress,     // a range that wraps, is over kMaxCodeBytes, or lies in the kernel's half
  kBadSizes,       // unwind data, or more lines than fit, beyond the record
  kUnknownRecord,  // an unknown id
  kLostFrame,      // a total_size below 16, so the next record can't be found; reading ends
  kCount,
};
inline constexpr std::size_t kJitDumpFaults = static_cast<std::size_t>(JitDumpFault::kCount);
[[nodiscard]] std::string_view name_of(JitDumpFault fault);  // "short_record"

// How far the file is read, and what its header says. Any values are safe: a state from a parser
// that misbehaves leads to wrong events, nothing worse.
struct JitDumpState {
  std::uint64_t offset = 0;  // of the next byte to read
  std::uint64_t flags = 0;
  // DEBUG records whose first line lies where a biased one does, minus all others, for line_bias().
  std::int64_t line_bias_votes = 0;
  std::uint64_t last_timestamp = 0;  // the highest so far, in the records' clock
  // The UNWINDING record whose LOAD is still to come; 0 bytes: none.
  std::uint64_t unwinding_offset = 0;
  std::uint64_t unwinding_bytes = 0;
  std::uint32_t pid = 0;  // from the header: a pid of the writer's namespace
  bool header_read = false;
  bool big_endian = false;
  bool frame_lost = false;  // no more events follow

  [[nodiscard]] bool has_arch_timestamps() const {
    return (flags & jitdump::kFlagArchTimestamp) != 0;
  }
  // To be subtracted from the addresses of DEBUG entries: 0 or 0x40. The more of the file is read,
  // the surer it is.
  [[nodiscard]] std::uint64_t line_bias() const {
    return line_bias_votes > 0 ? jitdump::kLineBias : 0;
  }
  [[nodiscard]] std::endian order() const {
    return big_endian ? std::endian::big : std::endian::little;
  }
};

enum class JitDumpEventKind : std::uint8_t {
  kLoad,
  kMove,
  kDebugInfo,      // the lines of code whose LOAD comes in a later call
  kUnwindingInfo,  // the unwind data of a whole object (LLVM's ORC), whose FDEs have the addresses
  kClose,
};

struct JitDumpEvent {
  JitDumpEventKind kind = JitDumpEventKind::kLoad;
  std::uint32_t pid = 0;
  std::uint64_t timestamp = 0;    // as written: see has_arch_timestamps()
  std::uint64_t address = 0;      // of the code; of a MOVE, the new one
  std::uint64_t old_address = 0;  // of a MOVE
  std::uint64_t code_bytes = 0;   // never 0 in a LOAD or MOVE
  std::string_view name;          // of a LOAD: any bytes but NUL; borrowed from the caller's buffer
  JitFileRange code;              // the code bytes
  JitFileRange debug_info;        // a record, for decode_jit_lines()
  JitFileRange unwinding_info;    // a record, for split_unwinding_info(); none: frame pointers
};

struct JitDumpEvents {
  std::vector<JitDumpEvent> events;                       // in the file's order, kDebugInfo last
  std::array<std::uint64_t, kJitDumpFaults> malformed{};  // records, by JitDumpFault
};

// A call with this many bytes, or all that the file has, reads one record at least.
inline constexpr std::size_t kMinJitDumpRead = jitdump::kMaxNameScan + jitdump::kLoadBytes + 1;

// `bytes` are the file's from state.offset on, as many as the caller has; `file_bytes` is the size
// of the whole file. state.offset moves behind the last record that was read, which may be beyond
// `bytes`. kMalformed: the file is no jitdump, and will not become one. A file with less than a
// header is no error.
[[nodiscard]] Result<JitDumpEvents> read_jitdump(std::string_view bytes, std::uint64_t file_bytes,
                                                 JitDumpState& state);

struct JitLine {
  std::uint32_t code_offset = 0;  // from the start of the code
  std::uint32_t line = 0;
  std::uint32_t discriminator = 0;  // with V8 and SpiderMonkey the column
  std::string_view file;            // borrowed from the record

  friend bool operator==(const JitLine&, const JitLine&) = default;
};

// The lines of a DEBUG record (the bytes of JitDumpEvent::debug_info): sorted by offset, within the
// code, one for each offset (the last written), without end marks. An entry before the code stands
// for its first byte. Decoding ends at the first entry that is garbage.
//
// V8 writes names of scripts that it has freed: their first 16 bytes then belong to the allocator.
// A name with the length of `script` that equals it from there on is replaced by `script`.
[[nodiscard]] std::vector<JitLine> decode_jit_lines(std::string_view record,
                                                    const JitDumpState& state,
                                                    std::uint64_t code_bytes,
                                                    std::string_view script = {});

// The script in V8's name of a function, "JS:*f /srv/a.js:1:2". Empty where there is none, or it is
// too short to be recognised without its first 16 bytes.
[[nodiscard]] std::string_view jit_script_of(std::string_view function);

// A DEBUG record's vote for a line bias: 1 if its lowest entry lies where a biased first line does,
// -1 if it lies elsewhere, 0 without entries. The record may be cut.
[[nodiscard]] int line_bias_vote(std::string_view record, std::endian order);

// Whether the bytes start like an eh_frame_hdr: version 1, then three pointer encodings. An
// eh_frame starts with the length of a CIE, which is a multiple of 4.
[[nodiscard]] bool is_eh_frame_hdr(std::string_view bytes);

// The two parts of an UNWINDING record's data: views into the record.
struct JitUnwindingInfo {
  std::string_view eh_frame;
  std::string_view eh_frame_hdr;
};

// kMalformed where the sizes or the header are invalid, or there is no eh_frame.
[[nodiscard]] Result<JitUnwindingInfo> split_unwinding_info(std::string_view record,
                                                            const JitDumpState& state);

// The address from which the pc-relative pointers of such an eh_frame count: perf's image has it
// behind the code, at the next multiple of 8. (ORC's pointers are absolute.)
[[nodiscard]] std::uint64_t assumed_eh_frame_address(std::uint64_t code_address,
                                                     std::uint64_t code_bytes);

// The fields of these names in the kernel's perf_event_mmap_page, valid if cap_user_time_zero is
// set.
struct TscConversion {
  std::uint64_t time_zero = 0;
  std::uint32_t time_mult = 0;
  std::uint16_t time_shift = 0;
};

// The nanoseconds of perf's clock for a count of the time stamp counter.
[[nodiscard]] std::uint64_t tsc_to_ns(std::uint64_t tsc, const TscConversion& conversion);

}  // namespace profd
