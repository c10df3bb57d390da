#include "formats/profile/gperftools_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "formats/profile/gperftools_format.h"
#include "formats/profile/gperftools_reader.h"

namespace profd {
namespace {

using gperftools::kBuildKey;
using gperftools::kSimilarRecords;

static_assert(std::endian::native == std::endian::little,
              "slots are appended as they are in memory");

void append_slots(std::string& file, std::span<const std::uint64_t> slots) {
  file.append(reinterpret_cast<const char*>(slots.data()), slots.size_bytes());
}

// The first caller of more than half of the records, or any address if there is none: the majority
// vote of Boyer and Moore.
std::uint64_t majority_caller(const Profile& profile) {
  std::uint64_t candidate = 0;
  std::uint64_t votes = 0;
  for (const Profile::Record& record : profile.records()) {
    if (record.depth < 2) continue;
    const std::uint64_t caller = profile.pcs(record)[1];
    if (votes == 0) candidate = caller;
    votes = caller == candidate ? votes + 1 : votes - 1;
  }
  return candidate;
}

std::uint64_t records_with_caller(const Profile& profile, std::uint64_t caller) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(profile.records(), [&](const Profile::Record& record) {
        return record.depth > 1 && profile.pcs(record)[1] == caller;
      }));
}

// The smallest number of decoys with which the heuristic of Go's pprof deletes no frame. Only a
// first caller that most records have can trigger it.
std::uint64_t decoys_needed(const Profile& profile) {
  const std::uint64_t same = records_with_caller(profile, majority_caller(profile));
  if (same == 0) return 0;
  std::uint64_t records = profile.records().size();
  while (same >= records - records / kSimilarRecords) ++records;
  return records - profile.records().size();
}

void append_records(std::string& file, const Profile& profile) {
  for (const Profile::Record& record : profile.records()) {
    append_slots(file, std::array<std::uint64_t, 2>{record.count, record.depth});
    append_slots(file, profile.pcs(record));
  }
}

void append_decoys(std::string& file, const Profile& profile, std::uint64_t decoys) {
  if (decoys == 0) return;
  // add_record() accepts a leaf of 0, but a decoy with it would be a trailer.
  const std::uint64_t leaf = std::max(profile.pcs(profile.records()[0])[0], gperftools::kNoAddress);
  for (; decoys > 0; --decoys) append_slots(file, std::array<std::uint64_t, 3>{0, 1, leaf});
}

bool fits_a_line(std::string_view text) {
  const auto ends_a_line = [](char c) { return c == '\r' || c == '\n' || c == '\0'; };
  return text.size() <= gperftools::kMaxLineBytes - 100 && std::ranges::none_of(text, ends_a_line);
}

// At least eight hexadecimal digits.
void append_address(std::string& file, std::uint64_t address) {
  constexpr int kDigitBits = 4;
  const int bits = static_cast<int>(std::bit_width(address));
  const int digits = std::max(8, (bits + kDigitBits - 1) / kDigitBits);
  for (int shift = (digits - 1) * kDigitBits; shift >= 0; shift -= kDigitBits) {
    file.push_back("0123456789abcdef"[address >> shift & 0xfU]);
  }
}

void append_mapping(std::string& file, const ProfileMapping& mapping) {
  if (mapping.path.empty() || !fits_a_line(mapping.path)) return;
  append_address(file, mapping.start);
  file.push_back('-');
  append_address(file, mapping.end);
  file.append(" r-xp ");
  append_address(file, mapping.file_offset);
  file.append(" 00:00 0 ").append(mapping.path).push_back('\n');
}

void append_build_dir(std::string& file, const std::string& build_dir) {
  if (build_dir.empty() || !fits_a_line(build_dir)) return;
  file.append(kBuildKey).append(build_dir).append("\n");
}

std::size_t encoded_bytes(const Profile& profile, std::uint64_t decoys) {
  std::size_t slots = gperftools::kHeaderSlots + gperftools::kTrailerSlots + decoys * 3;
  for (const Profile::Record& record : profile.records()) slots += 2 + record.depth;
  std::size_t text = sizeof kBuildKey + profile.build_dir.size();
  for (const ProfileMapping& mapping : profile.mappings) text += mapping.path.size() + 80;
  return slots * sizeof(std::uint64_t) + text;
}

// "libfoo.so", "libfoo.so.6.1", "addon.node": names in mapping lines that Perl's pprof reads.
bool named_like_library(std::string_view path) {
  constexpr std::array<std::string_view, 5> kSuffixes{".so", ".dll", ".dylib", ".bundle", ".node"};
  const std::size_t version = path.find_last_not_of("0123456789.");
  if (version == path.npos) return false;
  const std::string_view stem = path.substr(0, version + 1);
  const std::string_view digits = path.substr(version + 1);
  const bool whole = digits.empty() || (digits.starts_with('.') && !digits.ends_with('.') &&
                                        digits.find("..") == digits.npos);
  return whole &&
         std::ranges::any_of(kSuffixes, [&](auto suffix) { return stem.ends_with(suffix); });
}

// Go's pprof matches mapping lines with backtracking regular expressions: a path of 1,000 bytes
// blocks it practically for ever.
constexpr std::size_t kMaxReadablePathBytes = 512;

bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > ' ' && byte != 0x7f && byte != '$' && byte != '\\';
}

}  // namespace

std::string encode_gperftools(const Profile& profile, std::string_view more_lines) {
  const std::uint64_t decoys = decoys_needed(profile);
  const std::uint64_t period = std::max(profile.period, gperftools::kMinPeriod);
  std::string file;
  file.reserve(encoded_bytes(profile, decoys) + more_lines.size());
  append_slots(file, std::array<std::uint64_t, gperftools::kHeaderSlots>{
                         0, gperftools::kHeaderWords, gperftools::kVersion, period, 0});
  append_records(file, profile);
  append_decoys(file, profile, decoys);
  append_slots(file, std::array<std::uint64_t, gperftools::kTrailerSlots>{0, 1, 0});
  append_build_dir(file, profile.build_dir);
  for (const ProfileMapping& mapping : profile.mappings) append_mapping(file, mapping);
  return file.append(more_lines);
}

std::string mapping_line(const ProfileMapping& mapping) {
  std::string line;
  append_mapping(line, mapping);
  return line;
}

std::string with_build_dir(std::string file, const std::string& build_dir) {
  const Result<std::size_t> text = text_offset(file);
  if (!text || !fits_a_line(build_dir)) return file;
  if (!std::string_view(file).substr(*text).starts_with(kBuildKey)) return file;
  const std::size_t first = *text + std::string_view(kBuildKey).size();
  const std::size_t last = std::min(file.find('\n', first), file.size());
  return file.replace(first, last - first, build_dir);
}

bool readers_can_parse_path(const std::string& path, bool main_executable) {
  return path.starts_with('/') && path.size() <= kMaxReadablePathBytes &&
         std::ranges::all_of(path, is_plain) && (main_executable || named_like_library(path));
}

}  // namespace profd
