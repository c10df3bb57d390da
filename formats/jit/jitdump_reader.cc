#include "formats/jit/jitdump_reader.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "formats/base/cursor.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

using jitdump::RecordId;

// One record as it lies in the file. `bytes` may end before a record that is longer than the part
// that is read here.
struct Record {
  RecordId id = RecordId::kLoad;
  std::uint64_t timestamp = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t total_bytes = 0;
  std::string_view bytes;

  [[nodiscard]] JitFileRange range() const { return {offset, total_bytes}; }
};

// By RecordId.
constexpr std::array kLeastBytes{jitdump::kLoadBytes + 1, jitdump::kMoveBytes,
                                 jitdump::kDebugInfoBytes, jitdump::kRecordHeaderBytes,
                                 jitdump::kUnwindingInfoBytes};

// Each entry of a DEBUG record has a file name of at least a NUL.
std::uint64_t most_entries_of(const Record& record) {
  return (record.total_bytes - jitdump::kDebugInfoBytes) / (jitdump::kDebugEntryBytes + 1);
}

bool may_hold_code(std::uint64_t address, std::uint64_t bytes) {
  constexpr std::uint64_t kKernelHalf = std::uint64_t{1} << 63;
  return bytes <= jitdump::kMaxCodeBytes && address < kKernelHalf && bytes <= kKernelHalf - address;
}

// Makes events of records, and joins each LOAD with the DEBUG and UNWINDING records before it.
class EventMaker {
 public:
  EventMaker(JitDumpState& state, JitDumpEvents& result) : state_(state), result_(result) {}

  void add(const Record& record) {
    state_.last_timestamp = std::max(state_.last_timestamp, record.timestamp);
    if (record.id > RecordId::kUnwindingInfo) return drop(JitDumpFault::kUnknownRecord);
    if (record.total_bytes < kLeastBytes[static_cast<std::size_t>(record.id)]) {
      return drop(JitDumpFault::kShortRecord);
    }
    switch (record.id) {
      case RecordId::kLoad:
        return add_load(record);
      case RecordId::kMove:
        return add_move(record);
      case RecordId::kDebugInfo:
        return add_debug_info(record);
      case RecordId::kUnwindingInfo:
        return add_unwinding_info(record);
      case RecordId::kClose:
        result_.events.push_back(event_of(JitDumpEventKind::kClose, record.timestamp));
    }
  }

  // Adds the DEBUG records whose LOAD has not come yet.
  void finish() {
    for (const auto& [address, range] : waiting_) {
      JitDumpEvent event = event_of(JitDumpEventKind::kDebugInfo, state_.last_timestamp);
      event.address = address;
      event.debug_info = range;
      result_.events.push_back(event);
    }
  }

 private:
  static JitDumpEvent event_of(JitDumpEventKind kind, std::uint64_t timestamp) {
    JitDumpEvent event;
    event.kind = kind;
    event.timestamp = timestamp;
    return event;
  }

  void drop(JitDumpFault fault) { ++result_.malformed[static_cast<std::size_t>(fault)]; }

  Cursor body_of(const Record& record) {
    Cursor cursor(record.bytes, state_.order());
    cursor.read_bytes(jitdump::kRecordHeaderBytes);
    return cursor;
  }

  // The event of a LOAD or MOVE, whose bodies begin with the same fields.
  static JitDumpEvent code_event(JitDumpEventKind kind, const Record& record, Cursor& cursor) {
    JitDumpEvent event = event_of(kind, record.timestamp);
    event.pid = cursor.read<std::uint32_t>();
    cursor.read<std::uint32_t>();  // tid
    cursor.read<std::uint64_t>();  // vma
    return event;
  }

  void add_load(const Record& record) {
    Cursor cursor = body_of(record);
    JitDumpEvent event = code_event(JitDumpEventKind::kLoad, record, cursor);
    event.address = cursor.read<std::uint64_t>();
    event.code_bytes = cursor.read<std::uint64_t>();
    cursor.read<std::uint64_t>();  // code_index
    event.unwinding_info = take_unwinding_info();
    event.debug_info = take_debug_info(event.address);
    if (!may_hold_code(event.address, event.code_bytes)) return drop(JitDumpFault::kBadAddress);
    if (const auto fault = set_name_and_code(record, event)) return drop(*fault);
    if (event.code_bytes > 0) result_.events.push_back(event);
  }

  static std::optional<JitDumpFault> set_name_and_code(const Record& record, JitDumpEvent& event) {
    const std::string_view rest = record.bytes.substr(jitdump::kLoadBytes);
    const std::size_t name_bytes = rest.substr(0, jitdump::kMaxNameScan).find('\0');
    if (name_bytes == rest.npos) return JitDumpFault::kBadName;
    event.name = rest.substr(0, std::min(name_bytes, jitdump::kMaxNameBytes));
    const std::uint64_t code = jitdump::kLoadBytes + name_bytes + 1;
    if (code == record.total_bytes) return std::nullopt;
    if (event.code_bytes > record.total_bytes - code) return JitDumpFault::kBadCodeSize;
    event.code = {record.offset + code, event.code_bytes};
    return std::nullopt;
  }

  void add_move(const Record& record) {
    Cursor cursor = body_of(record);
    JitDumpEvent event = code_event(JitDumpEventKind::kMove, record, cursor);
    event.old_address = cursor.read<std::uint64_t>();
    event.address = cursor.read<std::uint64_t>();
    event.code_bytes = cursor.read<std::uint64_t>();
    if (!may_hold_code(event.address, event.code_bytes)) return drop(JitDumpFault::kBadAddress);
    if (event.code_bytes > 0) result_.events.push_back(event);
  }

  void add_debug_info(const Record& record) {
    Cursor cursor = body_of(record);
    const auto address = cursor.read<std::uint64_t>();
    if (cursor.read<std::uint64_t>() > most_entries_of(record)) {
      return drop(JitDumpFault::kBadSizes);
    }
    constexpr std::int64_t kMostVotes = 1'000'000;
    state_.line_bias_votes = std::clamp(state_.line_bias_votes, -kMostVotes, kMostVotes) +
                             line_bias_vote(record.bytes, state_.order());
    waiting_.insert_or_assign(address, record.range());
  }

  JitFileRange take_debug_info(std::uint64_t address) {
    const auto found = waiting_.extract(address);
    return found ? found.mapped() : JitFileRange{};
  }

  void add_unwinding_info(const Record& record) {
    Cursor cursor = body_of(record);
    const auto data_bytes = cursor.read<std::uint64_t>();
    const auto hdr_bytes = cursor.read<std::uint64_t>();
    state_.unwinding_bytes = 0;
    if (data_bytes > record.total_bytes - jitdump::kUnwindingInfoBytes || hdr_bytes > data_bytes)
      return drop(JitDumpFault::kBadSizes);
    if (data_bytes == hdr_bytes) return;  // the code has frame pointers
    if (is_eh_frame_hdr(record.bytes.substr(jitdump::kUnwindingInfoBytes))) {
      JitDumpEvent event = event_of(JitDumpEventKind::kUnwindingInfo, record.timestamp);
      event.unwinding_info = record.range();
      result_.events.push_back(event);
      return;
    }
    state_.unwinding_offset = record.offset;
    state_.unwinding_bytes = record.total_bytes;
  }

  JitFileRange take_unwinding_info() {
    return {std::exchange(state_.unwinding_offset, 0), std::exchange(state_.unwinding_bytes, 0)};
  }

  JitDumpState& state_;
  JitDumpEvents& result_;
  std::map<std::uint64_t, JitFileRange> waiting_;  // DEBUG records without a LOAD yet, by address
};

// False: the header is not complete yet.
Result<bool> read_header(std::string_view bytes, std::uint64_t file_bytes, JitDumpState& state) {
  state.big_endian = Cursor(bytes, std::endian::big).read<std::uint32_t>() == jitdump::kMagic;
  Cursor cursor(bytes, state.order());
  if (cursor.read<std::uint32_t>() != jitdump::kMagic && cursor.ok()) {
    return malformed("not a jitdump: the magic number is wrong");
  }
  if (bytes.size() < jitdump::kHeaderBytes) return false;
  const auto version = cursor.read<std::uint32_t>();
  const auto total_bytes = cursor.read<std::uint32_t>();
  if (version == 0 || version > jitdump::kMaxVersion) {
    return malformed("unknown jitdump version " + std::to_string(version) + "; 1 and 2 are known");
  }
  if (total_bytes < jitdump::kHeaderBytes || total_bytes > jitdump::kMaxHeaderBytes) {
    return malformed("invalid size of a jitdump header: " + std::to_string(total_bytes) + " bytes");
  }
  if (total_bytes > file_bytes) return false;
  cursor.read<std::uint32_t>();  // elf_machine
  cursor.read<std::uint32_t>();  // pad
  state.pid = cursor.read<std::uint32_t>();
  cursor.read<std::uint64_t>();  // timestamp
  state.flags = cursor.read<std::uint64_t>();
  state.offset = total_bytes;
  state.header_read = true;
  return true;
}

enum class Step { kRecord, kSkipped, kWait };

// Reads the record at the start of `bytes`, which lies at state.offset in the file.
Step next_record(std::string_view bytes, std::uint64_t file_bytes, JitDumpState& state,
                 JitDumpEvents& result, Record& record) {
  if (bytes.size() < jitdump::kRecordHeaderBytes) return Step::kWait;
  Cursor cursor(bytes, state.order());
  const auto id = cursor.read<std::uint32_t>();
  const auto total_bytes = cursor.read<std::uint32_t>();
  if (id == 0 && total_bytes == 0) return Step::kWait;
  if (total_bytes < jitdump::kRecordHeaderBytes) {
    ++result.malformed[static_cast<std::size_t>(JitDumpFault::kLostFrame)];
    state.frame_lost = true;
    return Step::kWait;
  }
  if (total_bytes > jitdump::kMaxRecordBytes) {
    ++result.malformed[static_cast<std::size_t>(JitDumpFault::kHugeRecord)];
    state.offset += total_bytes;
    return Step::kSkipped;
  }
  const std::uint64_t left = file_bytes - std::min(file_bytes, state.offset);
  if (total_bytes > left || bytes.size() < std::min<std::size_t>(total_bytes, kMinJitDumpRead))
    return Step::kWait;
  record = {RecordId{id}, cursor.read<std::uint64_t>(), state.offset, total_bytes,
            bytes.substr(0, total_bytes)};
  state.offset += total_bytes;
  return Step::kRecord;
}

}  // namespace

std::string_view name_of(JitDumpFault fault) {
  constexpr std::array<std::string_view, kJitDumpFaults> kNames{
      "short_record", "huge_record", "bad_name",       "bad_code_size",
      "bad_address",  "bad_sizes",   "unknown_record", "lost_frame"};
  return kNames[static_cast<std::size_t>(fault)];
}

Result<JitDumpEvents> read_jitdump(std::string_view bytes, std::uint64_t file_bytes,
                                   JitDumpState& state) {
  JitDumpEvents result;
  const std::uint64_t start = state.offset;
  if (!state.header_read) {
    const Result<bool> passed = read_header(bytes, file_bytes, state);
    if (!passed) return passed.error();
    if (!*passed) return result;
  }
  EventMaker events(state, result);
  Record record;
  while (!state.frame_lost && state.offset - start <= bytes.size()) {
    const std::string_view rest = bytes.substr(state.offset - start);
    const Step step = next_record(rest, file_bytes, state, result, record);
    if (step == Step::kWait) break;
    if (step == Step::kRecord) events.add(record);
  }
  events.finish();
  return result;
}

std::uint64_t tsc_to_ns(std::uint64_t tsc, const TscConversion& conversion) {
  const unsigned shift = std::min<unsigned>(conversion.time_shift, 63);
  const std::uint64_t quotient = tsc >> shift;
  const std::uint64_t remainder = tsc & ((std::uint64_t{1} << shift) - 1);
  return conversion.time_zero + quotient * conversion.time_mult +
         ((remainder * conversion.time_mult) >> shift);
}

}  // namespace profd
