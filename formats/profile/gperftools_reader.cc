#include "formats/profile/gperftools_reader.h"

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "formats/base/address_range.h"
#include "formats/base/cursor.h"
#include "formats/base/errors.h"
#include "formats/base/text_fields.h"
#include "formats/profile/gperftools_format.h"

namespace profd {
namespace {

using gperftools::kBuildKey;
using gperftools::kBuildVariable;
using gperftools::kDeletedSuffix;

// Of a profile. Paths have some hundred bytes.
constexpr std::size_t kMaxBuildBytes = std::size_t{16} << 20;

Error malformed_at(const std::string& what, std::size_t offset) {
  return fail(ErrorCode::kMalformed, what + " at offset " + std::to_string(offset));
}

Error cut_at(const std::string& what, std::size_t offset) {
  Error error = malformed_at("it is cut: " + what, offset);
  error.hint = kCutFileHint;
  return error;
}

struct SlotShape {
  std::size_t bytes = 8;
  std::endian order = std::endian::little;
};

// Reads slots of either width as 64-bit numbers.
class SlotCursor {
 public:
  SlotCursor(std::string_view file, SlotShape shape) : cursor_(file, shape.order), shape_(shape) {}

  std::uint64_t slot() {
    return shape_.bytes == 8 ? cursor_.read<std::uint64_t>() : cursor_.read<std::uint32_t>();
  }
  void skip(std::uint64_t slots) { cursor_.read_bytes(slots * shape_.bytes); }

  [[nodiscard]] bool ok() const { return cursor_.ok(); }
  [[nodiscard]] std::size_t offset() const { return cursor_.offset(); }
  [[nodiscard]] std::uint64_t slots_left() const { return cursor_.remaining() / shape_.bytes; }
  [[nodiscard]] std::size_t offset_of(std::size_t slot) const { return slot * shape_.bytes; }

 private:
  Cursor cursor_;
  SlotShape shape_;
};

std::uint64_t header_words(std::string_view file, SlotShape shape) {
  SlotCursor slots(file, shape);
  slots.skip(1);
  return slots.slot();
}

// Slot 0 is 0, and slot 1 is a small number other than 0. So 8 zero bytes are one wide slot, and
// the byte order is the one in which slot 1 is small.
Result<SlotShape> detect_shape(std::string_view file) {
  constexpr std::size_t kShortest = 8;
  if (file.size() < kShortest) return cut_at("the file ends in the header", file.size());
  const std::size_t zeros = std::min(file.find_first_not_of('\0'), file.size());
  if (zeros < 4) return malformed_at("not a CPU profile: the first slot is not 0", 0);
  for (const std::endian order : {std::endian::little, std::endian::big}) {
    const SlotShape shape{zeros >= 8 ? 8U : 4U, order};
    if (file.size() < 2 * shape.bytes) return cut_at("the file ends in the header", file.size());
    if (header_words(file, shape) <= gperftools::kMaxHeaderWords) return shape;
  }
  return malformed_at("not a CPU profile: the header is too large", 4);
}

// Returns the period.
Result<std::uint64_t> read_header(SlotCursor& slots) {
  slots.skip(1);
  const std::uint64_t words = slots.slot();
  if (words < gperftools::kHeaderWords) {
    return malformed_at("the header has " + std::to_string(words) + " words, but needs 3,",
                        slots.offset_of(1));
  }
  const std::uint64_t version = slots.slot();
  const std::uint64_t period = slots.slot();
  slots.skip(words - 2);
  if (!slots.ok()) return cut_at("the file ends in the header", slots.offset());
  if (version != gperftools::kVersion) {
    return malformed_at("unknown version " + std::to_string(version), slots.offset_of(2));
  }
  if (period < gperftools::kMinPeriod) return malformed_at("the period is 0", slots.offset_of(3));
  return period;
}

// A record up to its leaf. All of its callers are in the file.
struct RecordStart {
  std::size_t offset = 0;
  std::uint64_t count = 0;
  std::uint64_t depth = 0;
  std::uint64_t leaf = 0;

  // A record without samples has no callers.
  [[nodiscard]] bool is_trailer() const { return count == 0 && leaf == 0; }
  [[nodiscard]] bool is_decoy() const { return count == 0 && leaf != 0; }
};

Result<RecordStart> read_record_start(SlotCursor& slots) {
  RecordStart record{.offset = slots.offset()};
  record.count = slots.slot();
  record.depth = slots.slot();
  if (!slots.ok()) return cut_at("the file ends without a trailer", record.offset);
  if (record.depth == 0 || record.depth > gperftools::kMaxDepth) {
    return malformed_at("a stack is " + std::to_string(record.depth) + " frames deep",
                        record.offset);
  }
  if (record.depth > slots.slots_left()) return cut_at("the file ends in a record", record.offset);
  if (record.count == 0 && record.depth > 1) {
    return malformed_at("a record has a count of 0", record.offset);
  }
  record.leaf = slots.slot();
  return record;
}

// `pcs` is reused, so that its memory is allocated once.
void read_pcs(SlotCursor& slots, const RecordStart& record, std::vector<std::uint64_t>& pcs) {
  pcs.resize(record.depth);
  pcs.front() = record.leaf;
  for (std::uint64_t& pc : std::span(pcs).subspan(1)) pc = slots.slot();
}

struct ReadSlots {
  std::size_t text_offset = 0;
  std::uint64_t samples = 0;  // the sum of the counts
};

// Reads all that is before the text list. `profile` may be null.
Result<ReadSlots> read_slots(std::string_view file, Profile* profile) {
  const Result<SlotShape> shape = detect_shape(file);
  if (!shape) return shape.error();
  SlotCursor slots(file, *shape);
  const Result<std::uint64_t> period = read_header(slots);
  if (!period) return period.error();
  if (profile != nullptr) profile->period = *period;
  std::uint64_t left = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> pcs;
  while (true) {
    const Result<RecordStart> record = read_record_start(slots);
    if (!record) return record.error();
    if (record->is_trailer()) {
      return ReadSlots{.text_offset = slots.offset(),
                       .samples = std::numeric_limits<std::uint64_t>::max() - left};
    }
    if (record->is_decoy()) continue;
    if (record->count > left) {
      return malformed_at("the sum of the counts overflows 64 bits", record->offset);
    }
    left -= record->count;
    if (profile == nullptr) {
      slots.skip(record->depth - 1);
      continue;
    }
    read_pcs(slots, *record, pcs);
    profile->add_record(pcs, record->count);
  }
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

bool is_permissions(std::string_view word) {
  return word.size() <= 5 && word.find_first_not_of("-rwxsp") == word.npos;
}

AddressRange read_range(TextFields& fields) {
  AddressRange range;
  range.start = fields.hexadecimal();
  fields.expect('-');
  range.end = fields.hexadecimal();
  return range;
}

struct MappingLine {
  ProfileMapping mapping;
  bool executable = true;
};

// "START-LIMIT r-xp OFFSET MAJOR:MINOR INODE PATH", as in /proc/PID/maps; the path may contain
// blanks.
std::optional<MappingLine> parse_full_line(std::string_view line) {
  TextFields fields(line);
  const auto [start, end] = read_range(fields);
  const std::string_view permissions = fields.word_after_blanks();
  fields.blanks();
  const std::uint64_t file_offset = fields.hexadecimal();
  fields.blanks();
  fields.hexadecimal();
  fields.expect(':');
  fields.hexadecimal();
  fields.blanks();
  fields.decimal();
  if (fields.ok() && !fields.rest().empty()) fields.blanks();
  if (!fields.ok() || !is_permissions(permissions)) return std::nullopt;
  const std::string_view path = without_suffix(fields.rest(), kDeletedSuffix);
  return MappingLine{{start, end, file_offset, std::string(path)},
                     permissions.find('x') != permissions.npos};
}

// "(@1000)" -> 0x1000.
std::optional<std::uint64_t> parse_at_offset(std::string_view word) {
  TextFields fields(word);
  fields.expect('(');
  fields.expect('@');
  const std::uint64_t offset = fields.hexadecimal();
  fields.expect(')');
  if (!fields.ok() || !fields.rest().empty()) return std::nullopt;
  return offset;
}

// "START-LIMIT[:] [PERMISSIONS] PATH [(@OFFSET)] [BUILD_ID]"; the path contains no blanks.
std::optional<MappingLine> parse_brief_line(std::string_view line) {
  TextFields fields(line);
  MappingLine brief;
  const auto [start, end] = read_range(fields);
  if (fields.ok() && fields.rest().starts_with(':')) fields.expect(':');
  std::string_view path = fields.word_after_blanks();
  if (fields.ok() && is_permissions(path)) {
    brief.executable = path.find('x') != path.npos;
    path = fields.word_after_blanks();
  }
  if (!fields.ok()) return std::nullopt;
  const std::string_view rest = without_blanks(fields.rest());
  const std::uint64_t offset = parse_at_offset(rest.substr(0, rest.find(' '))).value_or(0);
  brief.mapping = {start, end, offset, std::string(path)};
  return brief;
}

// Replaces each "$build" in paths by a directory. Both may be as long as the file, so what that
// adds to all paths of a file is limited.
class BuildVariables {
 public:
  // False above the limit.
  [[nodiscard]] bool expand(std::string& path, std::string_view directory) {
    constexpr std::string_view kVariable = kBuildVariable;
    std::string expanded;
    std::size_t copied = 0;
    for (std::size_t at = path.find(kVariable); at != path.npos;
         at = path.find(kVariable, copied)) {
      if (directory.size() > bytes_left_) return false;
      bytes_left_ -= directory.size();
      expanded.append(path, copied, at - copied).append(directory);
      copied = at + kVariable.size();
    }
    if (copied != 0) path = expanded.append(path, copied);
    return true;
  }

 private:
  std::size_t bytes_left_ = kMaxBuildBytes;
};

// Reads the text list line by line. The first "build=" becomes Profile::build_dir, and "$build"
// stays in the paths, so that the profile stays equal when it is encoded again. The directory of a
// later "build=" is put into the paths.
class TextList {
 public:
  explicit TextList(Profile& profile) : profile_(profile) {}

  // False: "$build" stands for too much.
  [[nodiscard]] bool add_line(std::string_view line) {
    line = without_blanks(line);
    if (line.starts_with(kBuildKey)) {
      build_dir_ = line.substr(std::string_view(kBuildKey).size());
      if (profile_.build_dir.empty()) profile_.build_dir = build_dir_;
      return true;
    }
    std::optional<MappingLine> parsed = parse_full_line(line);
    if (!parsed) parsed = parse_brief_line(line);
    return !parsed || add_mapping(std::move(*parsed));
  }

 private:
  // Mappings without a path are left out: no reader can use them.
  bool add_mapping(MappingLine line) {
    ProfileMapping& mapping = line.mapping;
    if (!line.executable || mapping.path.empty() || mapping.end <= mapping.start) return true;
    if (build_dir_ != profile_.build_dir && !variables_.expand(mapping.path, build_dir_)) {
      return false;
    }
    profile_.mappings.push_back(std::move(mapping));
    return true;
  }

  Profile& profile_;
  std::string build_dir_;
  BuildVariables variables_;
};

Result<void> check_text(std::string_view file, std::size_t offset) {
  if (const std::size_t nul = file.find('\0', offset); nul != file.npos) {
    return malformed_at("the text list contains a NUL", nul);
  }
  if (offset == file.size() || file.back() == '\n') return {};
  const std::size_t last = file.substr(offset).rfind('\n');
  return cut_at("the last line has no end", last == file.npos ? offset : offset + last + 1);
}

// A text that check_text() accepts.
Result<void> read_text(std::string_view file, std::size_t offset, Profile& profile) {
  TextList list(profile);
  while (offset < file.size()) {
    const std::size_t end = file.find('\n', offset);
    if (!list.add_line(file.substr(offset, end - offset))) {
      return malformed_at("\"$build\" makes the paths too long", offset);
    }
    offset = end + 1;
  }
  return {};
}

}  // namespace

Result<Profile> decode_gperftools(std::string_view file) {
  Profile profile;
  const Result<ReadSlots> slots = read_slots(file, &profile);
  if (!slots) return slots.error();
  if (auto text = check_text(file, slots->text_offset); !text) return text.error();
  if (auto text = read_text(file, slots->text_offset, profile); !text) return text.error();
  return profile;
}

Result<std::uint64_t> count_gperftools_samples(std::string_view file) {
  const Result<ReadSlots> slots = read_slots(file, nullptr);
  if (!slots) return slots.error();
  if (auto text = check_text(file, slots->text_offset); !text) return text.error();
  return slots->samples;
}

Result<std::size_t> text_offset(std::string_view file) {
  const Result<ReadSlots> slots = read_slots(file, nullptr);
  if (!slots) return slots.error();
  return slots->text_offset;
}

}  // namespace profd
