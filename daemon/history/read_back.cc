#include "daemon/history/read_back.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/storage/file_io.h"

namespace profd {
namespace {

constexpr std::size_t kIdDigits = 16;
constexpr std::size_t kMaxIdDigits = 100;  // of a file_identity()

// What stands behind the build id in the identities of files, by the first digits of the build id.
// Where the build ids of two files have the same first digits, the end is empty: the window does
// not say which of the two a mapping is, even if both have the same end. A user can make files
// whose build ids begin like that of another's.
std::map<std::string_view, std::string_view> ends_of_identities(const WindowRecord& record) {
  std::map<std::string_view, std::string_view> by_id;
  for (const std::string_view text : record.named_files) {
    const std::size_t dash = std::min(text.find('-'), text.size());
    const auto [known, added] = by_id.try_emplace(text.substr(0, dash), text.substr(dash));
    if (!added) known->second = {};
  }
  return by_id;
}

std::uint32_t number_of(std::int64_t line) {
  return std::in_range<std::uint32_t>(line) ? static_cast<std::uint32_t>(line) : 0;
}

// What the cache knows of the location; none for one that has no name but that of its file.
std::optional<AddressNames> names_of_location(const PprofTables& tables,
                                              const PprofTables::Location& location) {
  AddressNames names{.address = location.address,
                     .frames = {},
                     .source = NameSource::kWindow,
                     .is_folded = location.is_folded};
  for (const PprofLine& line : tables.lines_of(location)) {
    const PprofFunction& function = tables.functions[line.function];
    CodeFrame& frame = names.frames.emplace_back();
    frame.name = tables.texts[function.name];
    frame.system_name = tables.texts[function.system_name];
    frame.file = tables.texts[function.file];
    frame.line = number_of(line.line);
    frame.start_line = number_of(function.start_line);
  }
  const bool is_named = !names.frames.empty() && !names.frames.front().name.starts_with('[');
  if (!is_named || !is_valid(names)) return std::nullopt;
  return names;
}

}  // namespace

std::string named_file_text(const std::string& identity) {
  const std::size_t dash = std::min(identity.find('-'), identity.size());
  return identity.substr(0, std::min(dash, kIdDigits)) + identity.substr(dash);
}

std::vector<std::string> named_files_of(const PprofProfile& profile,
                                        const std::vector<std::string>& identities) {
  std::map<std::string_view, int> left;  // by the first digits of the build ids
  for (const PprofMapping& mapping : profile.mappings()) {
    left.emplace(profile.text(mapping.build_id).substr(0, kIdDigits), 2);
  }
  std::vector<std::string> files;
  for (const std::string& identity : identities) {
    std::string text = named_file_text(identity);
    const auto known = left.find(std::string_view(text).substr(0, text.find('-')));
    if (known != left.end() && known->second-- > 0) files.push_back(std::move(text));
  }
  return files;
}

std::uint64_t read_names_back(const WindowFile& window, NameCache& cache) {
  const Result<PprofTables> tables = window.tables();
  if (!tables) return 0;
  const auto ends = ends_of_identities(window.record());
  std::uint64_t addresses = 0;
  for (const PprofTables::Location& location : tables->locations) {
    if (location.mapping == PprofLocation::kNoMapping || location.address == 0) continue;
    const PprofMapping& mapping = tables->mappings[location.mapping];
    const std::string_view id = tables->texts[mapping.build_id];
    const auto end = ends.find(id.substr(0, kIdDigits));
    if (id.empty() || end == ends.end() || end->second.empty()) continue;
    const std::optional<AddressNames> names = names_of_location(*tables, location);
    if (!names) continue;
    NameTable& known =
        cache.names_of(std::string(id.substr(0, kMaxIdDigits)) + std::string(end->second));
    if (known.find(names->address) != nullptr) continue;
    // DWARF is asked for lines that the time did not suffice for.
    known.set(*names, names->frames.front().line == 0);
    ++addresses;
  }
  return addresses;
}

std::uint64_t read_names_back(const std::string& windows_dir, NameCache& cache) {
  const Result<std::vector<std::string>> files = list_directory(windows_dir);
  if (!files) return 0;
  // A clock that was ahead has left windows of the future.
  const std::string now = window_name(std::chrono::system_clock::now());
  std::vector<std::string> names;
  for (const std::string& file : *files) {
    const std::string name =
        file.substr(0, file.size() - std::min(file.size(), kWindowFileEnd.size()));
    const bool is_window = file.ends_with(kWindowFileEnd) && is_window_name(name);
    if (is_window && name <= now) names.push_back(name);
  }
  std::ranges::sort(names, std::greater());
  names.resize(std::min(names.size(), kWindowsReadBack));
  std::uint64_t addresses = 0;
  for (const std::string& name : names) {
    const Result<WindowHead> head = read_window_head(windows_dir, name);
    if (!head || head->file_bytes > kMaxReadBackBytes) continue;
    const Result<WindowFile> window = WindowFile::open(windows_dir, name);
    if (window) addresses += read_names_back(*window, cache);
  }
  cache.trim();
  return addresses;
}

}  // namespace profd
