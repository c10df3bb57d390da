#include "daemon/history/store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/storage/file_io.h"
#include "daemon/storage/result_writer.h"
#include "formats/base/log_text.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::size_t kMaxSetAside = 10;

std::uint64_t file_bytes(int directory, const std::string& name) {
  struct stat status {};
  if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return 0;
  return static_cast<std::uint64_t>(status.st_size);
}

// Moves a malformed window to STATE/damaged/, where a few are kept for analysis.
void set_aside(int windows, const std::string& state_dir, const std::string& name) {
  const std::string path = state_dir + "/damaged/";
  const Result<UniqueFd> aside = open_own_directory(path);
  if (!aside) return;
  (void)remove_tree(aside->get(), name);
  (void)::renameat(windows, name.c_str(), aside->get(), name.c_str());
  const Result<std::vector<std::string>> kept = list_directory(path);
  for (std::size_t i = 0; kept && i + kMaxSetAside < kept->size(); ++i) {
    (void)remove_tree(aside->get(), (*kept)[i]);
  }
}

}  // namespace

std::uint64_t disk_bytes_of(std::uint64_t file_bytes) {
  return (file_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

Result<WindowStore> WindowStore::open(const std::string& state_dir) {
  WindowStore store(state_dir);
  if (Result<void> loaded = store.load_windows(state_dir); !loaded) return loaded.error();
  if (Result<void> loaded = store.load_objects(); !loaded) return loaded.error();
  return store;
}

Result<void> WindowStore::load_windows(const std::string& state_dir) {
  const Result<UniqueFd> directory = open_own_directory(windows_dir_);
  if (!directory) return directory.error();
  const Result<std::vector<std::string>> names = list_directory(windows_dir_);
  if (!names) return names.error();
  for (const std::string& name : *names) {
    if (name.starts_with('.')) {  // not completely written or removed
      if (Result<void> removed = remove_tree(directory->get(), name); !removed) return removed;
      continue;
    }
    const Result<WindowFiles> files = WindowFiles::open(windows_dir_, name);
    const Result<WindowRecord> record = files ? files->read_record() : files.error();
    if (record) {
      adopt({.name = name,
             .start = record->start,
             .end = record->end,
             .disk_bytes = record->disk_bytes},
            record->objects);
    } else {
      ++malformed_;
      log::warn("window {} is malformed and set aside: {}", log_text(name), record.error().message);
      set_aside(directory->get(), state_dir, name);
    }
  }
  return {};
}

Result<void> WindowStore::load_objects() {
  const Result<UniqueFd> directory = open_own_directory(objects_dir_);
  if (!directory) return directory.error();
  const Result<std::vector<std::string>> names = list_directory(objects_dir_);
  if (!names) return names.error();
  const std::set<std::string> there(names->begin(), names->end());
  std::erase_if(objects_, [&](const auto& object) { return !there.contains(object.first); });
  for (const std::string& name : *names) {
    if (objects_.contains(name)) {
      set_object_bytes(name, disk_bytes_of(file_bytes(directory->get(), name)));
    } else if (Result<void> removed = remove_tree(directory->get(), name); !removed) {
      return removed;
    }
  }
  return {};
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

void WindowStore::adopt(WindowInfo window, const std::vector<std::string>& objects) {
  for (const std::string& object : objects) {
    std::string& last = objects_[object].last_window;
    last = std::max(last, window.name);
  }
  windows_bytes_ += window.disk_bytes;
  const auto place = std::ranges::upper_bound(windows_, window.name, {}, &WindowInfo::name);
  windows_.insert(place, std::move(window));
}

void WindowStore::set_object_bytes(const std::string& name, std::uint64_t disk_bytes) {
  Object& object = objects_[name];
  objects_bytes_ += disk_bytes - object.disk_bytes;
  object.disk_bytes = disk_bytes;
}

Evicted WindowStore::evict(const WindowLimits& limits, std::chrono::system_clock::time_point now) {
  Evicted evicted;
  std::size_t count = 0;
  const auto oldest = [&] {
    return count < windows_.size() ? windows_[count].name : std::string();
  };
  drop_objects_before(oldest(), evicted);
  while (count < windows_.size() &&
         (windows_[count].end < now - limits.max_age || disk_bytes() > limits.max_bytes)) {
    windows_bytes_ -= windows_[count].disk_bytes;
    evicted.windows.push_back(std::move(windows_[count].name));
    ++count;
    drop_objects_before(oldest(), evicted);
  }
  windows_.erase(windows_.begin(), windows_.begin() + static_cast<std::ptrdiff_t>(count));
  return evicted;
}

std::vector<WindowInfo>::const_iterator WindowStore::find(const std::string& name) const {
  return std::ranges::find(windows_, name, &WindowInfo::name);
}

// Names sort by time. `oldest` is empty if there is no window left.
void WindowStore::drop_objects_before(const std::string& oldest, Evicted& evicted) {
  std::erase_if(objects_, [&](const auto& entry) {
    if (!oldest.empty() && entry.second.last_window >= oldest) return false;
    objects_bytes_ -= entry.second.disk_bytes;
    evicted.objects.push_back(entry.first);
    return true;
  });
}

}  // namespace profd
