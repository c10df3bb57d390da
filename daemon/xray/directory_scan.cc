#include "daemon/xray/directory_scan.h"

#include <fcntl.h>
#include <unistd.h>

namespace profd {

Result<void> DirectoryScan::begin(int directory) {
  directory_ = directory;
  seen_ = 0;
  const int fd = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  entries_.reset(fd < 0 ? nullptr : ::fdopendir(fd));
  if (entries_) return {};
  Error error = fail_errno("could not scan the directory of traces");
  if (fd >= 0) ::close(fd);
  return error;
}

bool DirectoryScan::step(const Found& found) {
  if (!entries_) return false;
  const auto end = std::chrono::steady_clock::now() + kMaxStep;
  for (std::size_t i = 0; i < kMaxEntriesOfStep; ++i) {
    const dirent* const entry = ::readdir(entries_.get());
    was_cut_ = entry != nullptr && seen_ == max_entries_;
    if (entry == nullptr || was_cut_) {
      entries_.reset();
      return false;
    }
    ++seen_;
    struct stat status {};
    if (!std::string_view(entry->d_name).starts_with(kTracePrefix) ||
        ::fstatat(directory_, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    found(entry->d_name, status);
    if (std::chrono::steady_clock::now() >= end) break;
  }
  return true;
}

}  // namespace profd
