#include "daemon/history/store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
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
constexpr std::size_t kNewest = 2;

bool is_directory(int directory, const std::string& name) {
  struct stat status {};
  return ::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(status.st_mode);
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

}  // namespace

std::uint64_t disk_bytes_of(std::uint64_t file_bytes) {
  return (file_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

Result<WindowStore> WindowStore::open(const std::string& state_dir) {
  WindowStore store(state_dir);
  if (Result<void> loaded = store.load(); !loaded) return loaded.error();
  if (Result<void> removed = store.remove_objects(); !removed) return removed.error();
  return store;
}

Result<void> WindowStore::load() {
  const Result<UniqueFd> directory = open_own_directory(windows_dir_);
  if (!directory) return directory.error();
  const Result<std::vector<std::string>> files = list_directory(windows_dir_);
  if (!files) return files.error();
  for (const std::string& file : *files) {
    if (Result<void> loaded = load(directory->get(), file); !loaded) return loaded;
  }
  check_newest(directory->get());
  if (of_old_form_ != 0) {
    log::info("removed {} windows of profd 0.1, whose form is not read any more", of_old_form_);
  }
  return {};
}

Result<void> WindowStore::load(int directory, const std::string& file) {
  // Not completely written or removed.
  if (file.starts_with('.')) return remove_tree(directory, file);
  if (is_window_name(file) && is_directory(directory, file)) {
    ++of_old_form_;
    return remove_whole(directory, file);
  }
  const std::string name = window_of_file(file);
  const Result<WindowHead> head = name.empty() ? profd::malformed("not the file of a window")
                                               : read_window_head(windows_dir_, name);
  if (!head) {
    set_aside(directory, file, head.error());
    return {};
  }
  adopt({.name = name,
         .start = head->start,
         .end = head->end,
         .disk_bytes = disk_bytes_of(head->file_bytes)});
  return {};
}

void WindowStore::check_newest(int directory) {
  for (std::size_t back = std::min(kNewest, windows_.size()); back > 0; --back) {
    const auto window = windows_.end() - static_cast<std::ptrdiff_t>(back);
    const Result<void> decoded = decode_whole(windows_dir_, window->name);
    if (decoded) continue;
    set_aside(directory, window->name + std::string(kWindowFileEnd), decoded.error());
    disk_bytes_ -= window->disk_bytes;
    windows_.erase(window);
  }
}

// Moves a malformed window to STATE/damaged/, where a few are kept for analysis.
void WindowStore::set_aside(int directory, const std::string& file, const Error& why) {
  ++malformed_;
  log::warn("window {} is malformed and set aside: {}", log_text(file), why.message);
  const std::string path = state_dir_ + "/damaged/";
  const Result<UniqueFd> aside = open_own_directory(path);
  if (!aside) return;
  (void)remove_tree(aside->get(), file);
  (void)::renameat(directory, file.c_str(), aside->get(), file.c_str());
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

std::vector<WindowInfo> WindowStore::between(std::chrono::system_clock::time_point since,
                                             std::chrono::system_clock::time_point until) const {
  std::vector<WindowInfo> found;
  std::ranges::copy_if(windows_, std::back_inserter(found), [&](const WindowInfo& window) {
    return window.end > since && window.start < until;
  });
  return found;
}

std::string WindowStore::unused_name(std::chrono::system_clock::time_point start) const {
  const std::string stem = window_name(start);
  std::string name = stem;
  for (int number = 2; find(name) != windows_.end(); ++number) {
    name = stem + "-" + std::to_string(number);
  }
  return name;
}

void WindowStore::adopt(WindowInfo window) {
  disk_bytes_ += window.disk_bytes;
  const auto place = std::ranges::upper_bound(windows_, window.name, {}, &WindowInfo::name);
  windows_.insert(place, std::move(window));
}

std::vector<std::string> WindowStore::evict(const WindowLimits& limits,
                                            std::chrono::system_clock::time_point now) {
  std::vector<std::string> evicted;
  for (WindowInfo& window : windows_) {
    if (window.end >= now - limits.max_age && disk_bytes_ <= limits.max_bytes) break;
    disk_bytes_ -= window.disk_bytes;
    evicted.push_back(std::move(window.name));
  }
  windows_.erase(windows_.begin(), windows_.begin() + static_cast<std::ptrdiff_t>(evicted.size()));
  return evicted;
}

std::vector<WindowInfo>::const_iterator WindowStore::find(const std::string& name) const {
  return std::ranges::find(windows_, name, &WindowInfo::name);
}

}  // namespace profd
