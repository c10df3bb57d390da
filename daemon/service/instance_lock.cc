#include "daemon/service/instance_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/storage/file_io.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

// A process that may open the file may lock it, and so keep profd from starting.
constexpr mode_t kMode = 0600;

Error locked_by(int fd, const std::string& path) {
  const Result<std::string> text = read_all(fd, path);
  const std::string pid = text ? text->substr(0, text->find('\n')) : std::string();
  return fail(ErrorCode::kBusy, "profd is already running" + (pid.empty() ? "" : " as pid " + pid),
              path + " is its lock");
}

}  // namespace

Result<UniqueFd> take_instance_lock(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kMode));
  if (!fd.valid()) return fail_errno("could not open " + path);
  // The file may exist already, with another owner.
  if (::fchown(fd.get(), ::geteuid(), ::getegid()) != 0 || ::fchmod(fd.get(), kMode) != 0) {
    return fail_errno("could not set the owner and mode of " + path);
  }
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return locked_by(fd.get(), path);
    return fail_errno("could not lock " + path);
  }
  if (::ftruncate(fd.get(), 0) != 0) return fail_errno("could not write " + path);
  Result<void> written = write_all(fd.get(), std::to_string(::getpid()) + "\n", path);
  if (!written) return written.error();
  return fd;
}

}  // namespace profd
