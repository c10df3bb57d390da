#include "formats/base/whole_file.h"

#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace profd {

Result<std::string> read_all(int fd, const std::string& what, std::size_t max_bytes) {
  std::string text;
  std::array<char, 65536> chunk;
  while (text.size() < max_bytes) {
    const std::size_t wanted = std::min(chunk.size(), max_bytes - text.size());
    const ssize_t bytes = ::read(fd, chunk.data(), wanted);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return fail_errno("could not read " + what);
    if (bytes == 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(bytes));
  }
  return text;
}

Result<std::string> read_whole_file(const std::string& path, int directory, std::size_t max_bytes) {
  const UniqueFd fd(::openat(directory, path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno("could not open " + path);
  return read_all(fd.get(), path, max_bytes);
}

UniqueFd open_resolved(int directory, const std::string& path, std::uint64_t flags,
                       std::uint64_t resolve) {
  open_how how{};
  how.flags = flags;
  how.resolve = resolve;
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how)));
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace profd
