#include "daemon/storage/file_io.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "formats/base/whole_file.h"

namespace profd {

Result<void> write_all(int fd, std::string_view bytes, const std::string& what) {
  return write_all(fd, bytes) ? Result<void>() : fail_errno("could not write " + what);
}

Result<void> make_directory(const std::filesystem::path& path, mode_t mode) {
  std::error_code error;
  if (path.empty() || std::filesystem::is_directory(path, error)) return {};
  std::filesystem::create_directories(path, error);
  if (error) return fail_errno("could not make the directory " + path.string(), error.value());
  if (::chmod(path.c_str(), mode) != 0) {
    return fail_errno("could not set the mode of " + path.string());
  }
  return {};
}

Result<UniqueFd> open_own_directory(const std::string& path) {
  if (auto made = make_directory(path, S_IRWXU); !made) return made.error();
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fchmod(fd.get(), S_IRWXU) != 0) return fail_errno("could not open " + path);
  return fd;
}

UniqueFd open_directory(int parent, const std::string& name) {
  return UniqueFd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    names.push_back(entry.path().filename().string());
  }
  if (error) return fail_errno("could not list " + path, error.value());
  std::ranges::sort(names);
  return names;
}

UniqueFd open_beneath(int directory, const std::string& path) {
  return open_resolved(directory, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC,
                       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

Result<std::string> read_beneath(int directory, const std::string& path, std::uint64_t max_bytes) {
  const UniqueFd fd = open_beneath(directory, path);
  struct stat status {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) return fail_errno("could not open " + path);
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::kMalformed, path + " is not a regular file");
  if (static_cast<std::uint64_t>(status.st_size) > max_bytes) {
    return fail(ErrorCode::kTooLarge, path + " is over " + std::to_string(max_bytes) + " bytes");
  }
  return read_all(fd.get(), path);
}

}  // namespace profd
