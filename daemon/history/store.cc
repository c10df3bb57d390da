#include "daemon/history/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/storage/file_io.h"
#include "daemon/storage/result_writer.h"
#include "formats/base/errors.h"
#include "formats/base/log_text.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::size_t kMaxSetAside = 10;

// Their data may not have reached the disk when the host crashed.
constexpr std::size_t kNewestWindows = 2;

bool is_directory(int directory, const std::string& name) {
  struct stat status {};
  return ::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(status.st_mode);
}

// Windows and hour files have the same names.
std::string unused_name_aside(int directory, const std::string& file) {
  std::string name = file;
  for (int number = 2; ::faccessat(directory, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;) {
    name = file + "." + std::to_string(number++);
  }
  return name;
}

// The name of the window that a file has. Another file: none.
std::string window_of_file(const std::string& file) {
  if (!file.ends_with(kWindowFileEnd)) return {};
  std::string name = file.substr(0, file.size() - kWindowFileEnd.size());
  return is_window_name(name) ? name : std::string();
}

Result<void> decode_whole(const std::string& directory, const std::string& name) {
  const Result<WindowFile> file = WindowFile::open(directory, name);
  if (!file) return file.error();
  const Result<PprofTables> tables = file->tables();
  return tables ? Result<void>() : tables.error();
}

// Removes the newest files that can't be decoded from the table, and returns them.
template <class Info>
std::vector<std::pair<Info, Error>> take_malformed(std::vector<Info>& files, std::size_t newest,
                                                   const std::string& directory) {
  std::vector<std::pair<Info, Error>> malformed;
  for (std::size_t back = std::min(newest, files.size()); back > 0; --back) {
    const auto file = files.end() - static_cast<std::ptrdiff_t>(back);
    const Result<void> decoded = decode_whole(directory, file->name);
    if (decoded) continue;
    malformed.emplace_back(std::move(*file), decoded.error());
    files.erase(file);
  }
  return malformed;
}

// "20260102T140500Z", or with "-2" and so on if that is taken.
template <class Info>
std::string unused_name_in(const std::vector<Info>& files,
                           std::chrono::system_clock::time_point start) {
  const std::string stem = window_name(start);
  std::string name = stem;
  for (int number = 2; std::ranges::find(files, name, &Info::name) != files.end(); ++number) {
    name = stem + "-" + std::to_string(number);
  }
  return name;
}

// In the order in which they were written, as far as that is known, else by name; the first `most`.
template <class Windows, class IsWanted>
std::vector<std::string> names_in_order(const Windows& windows, const IsWanted& is_wanted,
                                        std::size_t most) {
  std::vector<std::pair<std::uint64_t, std::string_view>> wanted;
  wanted.reserve(windows.size());
  for (const auto& window : windows) {
    if (is_wanted(window.sequence, window.name)) wanted.emplace_back(window.sequence, window.name);
  }
  const std::size_t count = std::min(most, wanted.size());
  std::ranges::partial_sort(wanted, wanted.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<std::string> names;
  names.reserve(count);
  for (std::size_t i = 0; i < count; ++i) names.emplace_back(wanted[i].second);
  return names;
}

// Whether a window was written after another one, of which the sequence may be unknown.
class IsAfter {
 public:
  IsAfter(const std::string& name, std::optional<std::uint64_t> sequence)
      : name_(name), sequence_(sequence) {}

  [[nodiscard]] bool operator()(std::uint64_t sequence, const std::string& name) const {
    return sequence_ ? sequence > *sequence_ : name > name_;
  }

 private:
  const std::string& name_;
  std::optional<std::uint64_t> sequence_;
};

}  // namespace

std::uint64_t disk_bytes_of(std::uint64_t file_bytes) {
  return (file_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

Result<WindowStore> WindowStore::open(const std::string& state_dir) {
  WindowStore store(state_dir);
  if (Result<void> loaded = store.load_windows(); !loaded) return loaded.error();
  if (Result<void> loaded = store.load_hours(); !loaded) return loaded.error();
  if (Result<void> removed = store.remove_objects(); !removed) return removed.error();
  return store;
}

Result<void> WindowStore::load_windows() {
  const Result<UniqueFd> directory = open_own_directory(windows_dir_);
  if (!directory) return directory.error();
  const Result<std::vector<std::string>> files = list_directory(windows_dir_);
  if (!files) return files.error();
  for (const std::string& file : *files) {
    if (Result<void> loaded = load_window(directory->get(), file); !loaded) return loaded;
  }
  for (const auto& [window, why] : take_malformed(windows_, kNewestWindows, windows_dir_)) {
    set_aside(directory->get(), window.name + std::string(kWindowFileEnd), why);
    windows_bytes_ -= window.disk_bytes;
  }
  if (of_old_form_ != 0) {
    log::info("removed {} windows of profd 0.1, whose form is not read any more", of_old_form_);
  }
  return {};
}

Result<void> WindowStore::load_window(int directory, const std::string& file) {
  // Not completely written or removed.
  if (file.starts_with('.')) return remove_tree(directory, file);
  if (is_window_name(file) && is_directory(directory, file)) {
    ++of_old_form_;
    return remove_whole(directory, file);
  }
  const std::string name = window_of_file(file);
  Result<WindowHead> head = name.empty() ? profd::malformed("not the file of a window")
                                         : read_window_head(windows_dir_, name);
  if (head && !name.starts_with(window_name(head->start))) {
    head = profd::malformed("its name is not the time of its start");
  }
  if (!head) {
    set_aside(directory, file, head.error());
    return {};
  }
  adopt(WindowInfo{.name = name,
                   .start = head->start,
                   .end = head->end,
                   .disk_bytes = disk_bytes_of(head->file_bytes),
                   .users = std::move(head->parts.users)});
  return {};
}

Result<void> WindowStore::load_hours() {
  const Result<UniqueFd> directory = open_own_directory(hours_dir_);
  if (!directory) return directory.error();
  const Result<std::vector<std::string>> files = list_directory(hours_dir_);
  if (!files) return files.error();
  // The names sort by time.
  for (const std::string& file : *files) {
    const bool is_newest = &file == &files->back();
    if (Result<void> loaded = load_hour(directory->get(), file, is_newest); !loaded) return loaded;
  }
  return {};
}

Result<void> WindowStore::load_hour(int directory, const std::string& file, bool is_newest) {
  if (file.starts_with('.')) return remove_tree(directory, file);
  const std::string name = window_of_file(file);
  Result<WindowHead> head = name.empty() ? profd::malformed("not the file of an hour")
                                         : read_window_head(hours_dir_, name);
  if (head && head->parts.windows.empty()) head = profd::malformed("not the file of an hour");
  if (head && is_newest) {
    if (const Result<void> whole = decode_whole(hours_dir_, name); !whole) head = whole.error();
  }
  if (!head) {
    set_aside(directory, file, head.error());
    return {};
  }
  for (const std::string& window : head->parts.windows) {
    if (find_window(window) == nullptr) add_removed(window);
  }
  adopt(HourInfo{.name = name,
                 .start = head->start,
                 .end = head->end,
                 .disk_bytes = disk_bytes_of(head->file_bytes),
                 .parts = std::move(head->parts)});
  return {};
}

// Moves a malformed file to STATE/damaged/, where a few are kept for analysis.
void WindowStore::set_aside(int directory, const std::string& file, const Error& why) {
  ++malformed_;
  log::warn("the file {} of the history is malformed and set aside: {}", log_text(file),
            why.message);
  const std::string path = state_dir_ + "/damaged/";
  const Result<UniqueFd> aside = open_own_directory(path);
  if (!aside) return;
  const std::string name = unused_name_aside(aside->get(), file);
  (void)::renameat(directory, file.c_str(), aside->get(), name.c_str());
  const Result<std::vector<std::string>> kept = list_directory(path);
  for (std::size_t i = 0; kept && i + kMaxSetAside < kept->size(); ++i) {
    (void)remove_tree(aside->get(), (*kept)[i]);
  }
}

// The images that the windows of profd 0.1 shared.
Result<void> WindowStore::remove_objects() {
  const UniqueFd state = open_directory(AT_FDCWD, state_dir_);
  if (!state.valid()) return fail_errno("could not open " + state_dir_);
  return is_directory(state.get(), "objects") ? remove_whole(state.get(), "objects")
                                              : Result<void>();
}

std::vector<std::string> WindowStore::names_after(const std::string& after,
                                                  std::size_t most) const {
  return names_in_order(windows_, IsAfter(after, sequence_of(after)), most);
}

std::vector<std::string> WindowStore::removed_after(const std::string& after,
                                                    std::size_t most) const {
  if (after.empty()) return {};
  return names_in_order(removed_, IsAfter(after, sequence_of(after)), most);
}

const WindowInfo* WindowStore::find_window(const std::string& name) const {
  const auto window = std::ranges::lower_bound(windows_, name, {}, &WindowInfo::name);
  return window != windows_.end() && window->name == name ? &*window : nullptr;
}

std::optional<std::uint64_t> WindowStore::sequence_of(const std::string& name) const {
  if (const WindowInfo* const window = find_window(name)) return window->sequence;
  // A name may be given again after its window was removed.
  const auto removed =
      std::ranges::find(removed_.rbegin(), removed_.rend(), name, &RemovedWindow::name);
  if (removed == removed_.rend() || removed->sequence == 0) return std::nullopt;
  return removed->sequence;
}

void WindowStore::add_removed(const std::string& name) {
  const WindowInfo* const window = find_window(name);
  removed_.push_back({.name = name, .sequence = window == nullptr ? 0 : window->sequence});
  if (removed_.size() > kMaxRemoved) removed_.pop_front();
}

std::string WindowStore::unused_name(std::chrono::system_clock::time_point start) const {
  return unused_name_in(windows_, start);
}

std::string WindowStore::unused_hour_name(std::chrono::system_clock::time_point start) const {
  return unused_name_in(hours_, start);
}

void WindowStore::adopt(WindowInfo window) {
  windows_bytes_ += window.disk_bytes;
  window.sequence = ++adopted_;
  const auto place = std::ranges::upper_bound(windows_, window.name, {}, &WindowInfo::name);
  windows_.insert(place, std::move(window));
}

void WindowStore::adopt(HourInfo hour) {
  hours_bytes_ += hour.disk_bytes;
  hour.windows = hour.parts.windows.size();
  for (const std::string& name : std::exchange(hour.parts.windows, {})) {
    const auto window = std::ranges::lower_bound(windows_, name, {}, &WindowInfo::name);
    if (window != windows_.end() && window->name == name) window->hour = hour.name;
  }
  const auto place = std::ranges::upper_bound(hours_, hour.name, {}, &HourInfo::name);
  hours_.insert(place, std::move(hour));
}

}  // namespace profd
