#include "collectors/files/reach.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <string>
#include <utility>

#include "formats/base/unique_fd.h"

namespace profd {
namespace {

bool may_be_searched_by_others(int directory) {
  struct statx status {};
  return ::statx(directory, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MODE, &status) == 0 &&
         (status.stx_mode & S_IXOTH) != 0;
}

bool is_same_file(int a, int b) {
  struct statx first {};
  struct statx second {};
  constexpr int kFlags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  return ::statx(a, "", kFlags, STATX_INO, &first) == 0 &&
         ::statx(b, "", kFlags, STATX_INO, &second) == 0 &&
         first.stx_dev_major == second.stx_dev_major &&
         first.stx_dev_minor == second.stx_dev_minor && first.stx_ino == second.stx_ino;
}

}  // namespace

// Each directory is opened in the one that was checked, since the owner of one can rename what is
// in it meanwhile; so it must still be the file that is at the end.
bool may_be_reached_by_others(int root, std::string_view path, int file) {
  UniqueFd directory(::openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  while (directory.valid() && may_be_searched_by_others(directory.get())) {
    path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string name(path.substr(0, end));
    if (name.empty() || name == "..") return false;
    UniqueFd next(::openat(directory.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    path.remove_prefix(end);
    if (path.empty()) return next.valid() && is_same_file(next.get(), file);
    directory = std::move(next);
  }
  return false;
}

bool may_be_reached_by_others(int file) {
  const UniqueFd root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::array<char, PATH_MAX> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t bytes = ::readlink(link.c_str(), path.data(), path.size());
  return root.valid() && bytes > 0 &&
         may_be_reached_by_others(
             root.get(), std::string_view(path.data(), static_cast<std::size_t>(bytes)), file);
}

}  // namespace profd
