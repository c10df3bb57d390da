#include "formats/profile/lineless_files.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "formats/profile/pprof_reader.h"

namespace profd {
namespace {

constexpr std::size_t kMinDigits = 4;
constexpr std::size_t kMaxDigits = 128;

bool has_no_line(const PprofTables& profile, const PprofTables::Location& location) {
  const auto lines = profile.lines_of(location);
  return lines.empty() || lines.front().line == 0;
}

// The debug information of these is there already: what has no line is code without one, such as
// assembly, or was recorded before.
std::set<std::string_view> files_with_lines(const PprofTables& profile) {
  std::set<std::string_view> ids;
  for (const PprofTables::Location& location : profile.locations) {
    if (location.mapping == PprofLocation::kNoMapping || has_no_line(profile, location)) continue;
    ids.insert(profile.texts[profile.mappings[location.mapping].build_id]);
  }
  return ids;
}

// The mappings of the sample's frames without a line, each once.
std::set<std::uint32_t> mappings_without_lines(const PprofTables& profile,
                                               const PprofTables::Sample& sample) {
  std::set<std::uint32_t> mappings;
  for (const std::uint32_t frame : profile.frames_of(sample)) {
    const PprofTables::Location& location = profile.locations[frame];
    if (location.mapping == PprofLocation::kNoMapping) continue;
    if (has_no_line(profile, location)) mappings.insert(location.mapping);
  }
  return mappings;
}

}  // namespace

bool is_build_id(std::string_view text) {
  return text.size() >= kMinDigits && text.size() <= kMaxDigits && text.size() % 2 == 0 &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::vector<LinelessFile> find_lineless_files(const PprofTables& profile) {
  const std::set<std::string_view> with_lines = files_with_lines(profile);
  std::map<std::string_view, LinelessFile> by_id;
  for (std::size_t i = 0; i < profile.samples.size(); ++i) {
    const auto values = profile.values_of(i);
    const std::int64_t value = values.empty() ? 0 : std::max<std::int64_t>(values.front(), 0);
    for (const std::uint32_t index : mappings_without_lines(profile, profile.samples[i])) {
      const PprofMapping& mapping = profile.mappings[index];
      const std::string_view id = profile.texts[mapping.build_id];
      if (!is_build_id(id) || with_lines.contains(id)) continue;
      LinelessFile& file = by_id[id];
      if (file.path.empty()) file.path = profile.texts[mapping.file];
      file.samples += static_cast<std::uint64_t>(value);
    }
  }
  std::vector<LinelessFile> files;
  for (auto& [id, file] : by_id) {
    file.build_id = id;
    files.push_back(std::move(file));
  }
  std::ranges::stable_sort(files, std::greater(), &LinelessFile::samples);
  return files;
}

Result<std::vector<LinelessFile>> find_lineless_files(std::string_view file) {
  const auto protobuf = unpack_pprof(file);
  if (!protobuf) return error_of(protobuf.error());
  const auto tables = read_pprof_tables(*protobuf);
  if (!tables) return error_of(tables.error());
  return find_lineless_files(*tables);
}

}  // namespace profd
