
// The content of the DEBUG and UNWINDING records.

#include <algorithm>
#include <limits>
#include <optional>

#include "formats/base/cursor.h"
#include "formats/base/errors.h"
#include "formats/elf/dwarf_cursor.h"
#include "formats/jit/jitdump_reader.h"

namespace profd {
namespace {

// perf's struct has an int.
constexpr std::uint32_t kMaxLine = std::numeric_limits<std::int32_t>::max();

// The allocator writes two pointers into memory that was freed.
constexpr std::size_t kFreedBytes = 16;

// One pass over the entries of a DEBUG record, up to its end or the first garbage.
class DebugEntries {
 public:
  // `code_bytes`: the size of the code, or its upper limit.
  DebugEntries(std::string_view record, std::endian order, std::uint64_t code_bytes,
               std::string_view script = {})
      : record_(record), cursor_(record, order), script_(script) {
    cursor_.read_bytes(jitdump::kRecordHeaderBytes);
    code_address_ = cursor_.read<std::uint64_t>();
    left_ = cursor_.read<std::uint64_t>();
    farthest_ = static_cast<std::int64_t>(std::min(code_bytes, jitdump::kMaxCodeBytes) +
                                          jitdump::kLineSlackBytes);
  }

  struct Entry {
    std::int64_t distance = 0;  // from the start of the code, as written
    std::uint32_t line = 0;
    std::uint32_t discriminator = 0;
    std::string_view file;
  };

  std::optional<Entry> next() {
    if (left_ == 0) return std::nullopt;
    --left_;
    Entry entry;
    entry.distance = static_cast<std::int64_t>(cursor_.read<std::uint64_t>() - code_address_);
    entry.line = cursor_.read<std::uint32_t>();
    entry.discriminator = cursor_.read<std::uint32_t>();
    entry.file = read_name();
    const bool near = entry.distance >= -static_cast<std::int64_t>(jitdump::kLineSlackBytes) &&
                      entry.distance <= farthest_;
    broke_off_ = cursor_.ok() && !near;
    if (!cursor_.ok() || !near) return std::nullopt;
    return entry;
  }

  // Whether garbage ended the pass. The name of the entry before is then cut: V8 writes names that
  // it has freed, which hold pointers with NULs.
  [[nodiscard]] bool broke_off() const { return broke_off_; }

 private:
  std::string_view read_name() {
    if (is_freed_script()) {
      cursor_.read_bytes(script_.size() + 1);
      return file_ = script_;
    }
    const std::size_t end = record_.find('\0', cursor_.offset());
    if (!cursor_.ok() || end == record_.npos) {
      dwarf::fail_cursor(cursor_);
      return {};
    }
    const std::string_view name = cursor_.read_bytes(end - cursor_.offset());
    cursor_.read_bytes(1);
    if (name.size() != 1 || name[0] != jitdump::kSameFileName)
      file_ = name.substr(0, jitdump::kMaxNameBytes);
    return file_;
  }

  [[nodiscard]] bool is_freed_script() const {
    if (script_.empty() || !cursor_.ok()) return false;
    const std::string_view name = record_.substr(cursor_.offset(), script_.size() + 1);
    return name.size() > script_.size() && name.back() == '\0' &&
           name.substr(0, kFreedBytes) != script_.substr(0, kFreedBytes) &&
           name.substr(kFreedBytes, script_.size() - kFreedBytes) == script_.substr(kFreedBytes);
  }

  std::string_view record_;
  Cursor cursor_;
  std::string_view script_;
  std::uint64_t code_address_ = 0;
  std::uint64_t left_ = 0;
  std::int64_t farthest_ = 0;
  std::string_view file_;
  bool broke_off_ = false;
};

// Sorts the lines. Of several lines at one offset, the last one stays.
void keep_last_of_each_offset(std::vector<JitLine>& lines) {
  std::ranges::stable_sort(lines, {}, &JitLine::code_offset);
  const auto first_kept =
      std::unique(lines.rbegin(), lines.rend(), [](const auto& a, const auto& b) {
        return a.code_offset == b.code_offset;
      }).base();
  lines.erase(lines.begin(), first_kept);
}

bool is_pointer_encoding(unsigned char encoding) {
  if (encoding == dwarf::kPointerOmitted) return true;
  const unsigned format = encoding & dwarf::kPointerFormat;
  const unsigned application = encoding & dwarf::kPointerApplication;
  return (format <= dwarf::kPointerU64 ||
          (format >= dwarf::kPointerSleb && format <= dwarf::kPointerS64)) &&
         application <= 0x50;
}

}  // namespace

int line_bias_vote(std::string_view record, std::endian order) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::int64_t least = kNone;
  DebugEntries entries(record, order, jitdump::kMaxCodeBytes);
  while (const auto entry = entries.next()) least = std::min(least, entry->distance);
  if (least == kNone) return 0;
  const bool biased = least >= static_cast<std::int64_t>(jitdump::kLineBias) &&
                      least <= jitdump::kMaxBiasedFirstLine;
  return biased ? 1 : -1;
}

std::string_view jit_script_of(std::string_view function) {
  constexpr std::size_t kKnownBytes = 8;
  std::string_view script = function.substr(std::min(function.find(' '), function.size() - 1) + 1);
  for (int i = 0; i < 2; ++i) {  // line and column
    const std::size_t colon = script.find_last_not_of("0123456789");
    if (colon != script.npos && colon + 1 < script.size() && script[colon] == ':') {
      script = script.substr(0, colon);
    }
  }
  return script.size() >= kFreedBytes + kKnownBytes ? script : std::string_view();
}

std::vector<JitLine> decode_jit_lines(std::string_view record, const JitDumpState& state,
                                      std::uint64_t code_bytes, std::string_view script) {
  std::vector<JitLine> lines;
  const auto bias = static_cast<std::int64_t>(state.line_bias());
  DebugEntries entries(record, state.order(), code_bytes, script);
  bool is_last_kept = false;
  while (const auto entry = entries.next()) {
    is_last_kept = false;
    const std::int64_t offset = std::max<std::int64_t>(entry->distance - bias, 0);
    const bool is_mark = entry->line == 0 || entry->line > kMaxLine || entry->file.empty();
    if (is_mark || static_cast<std::uint64_t>(offset) >= code_bytes) continue;
    if (lines.size() == jitdump::kMaxLinesOfFunction) break;
    lines.push_back(
        {static_cast<std::uint32_t>(offset), entry->line, entry->discriminator, entry->file});
    is_last_kept = true;
  }
  if (entries.broke_off() && is_last_kept) lines.pop_back();
  keep_last_of_each_offset(lines);
  return lines;
}

bool is_eh_frame_hdr(std::string_view bytes) {
  return bytes.size() >= 4 && bytes[0] == 1 &&
         std::ranges::all_of(bytes.substr(1, 3), [](char encoding) {
           return is_pointer_encoding(static_cast<unsigned char>(encoding));
         });
}

Result<JitUnwindingInfo> split_unwinding_info(std::string_view record, const JitDumpState& state) {
  Cursor cursor(record, state.order());
  cursor.read_bytes(jitdump::kRecordHeaderBytes);
  const auto data_bytes = cursor.read<std::uint64_t>();
  const auto hdr_bytes = cursor.read<std::uint64_t>();
  cursor.read<std::uint64_t>();  // mapped_size, which is not the size of the data
  const std::string_view data = cursor.read_bytes(data_bytes);
  if (!cursor.ok() || hdr_bytes > data.size()) {
    return malformed("the unwind data exceeds its record");
  }
  if (hdr_bytes == data.size()) {
    return malformed("the record has no unwind data: its code has frame pointers");
  }
  if (is_eh_frame_hdr(data))
    return JitUnwindingInfo{data.substr(hdr_bytes), data.substr(0, hdr_bytes)};
  const std::string_view last = data.substr(data.size() - hdr_bytes);
  if (hdr_bytes != 0 && !is_eh_frame_hdr(last)) {
    return malformed("the unwind data has no header at either end");
  }
  return JitUnwindingInfo{data.substr(0, data.size() - hdr_bytes), last};
}

std::uint64_t assumed_eh_frame_address(std::uint64_t code_address, std::uint64_t code_bytes) {
  return code_address + (code_bytes + 7) / 8 * 8;
}

}  // namespace profd
