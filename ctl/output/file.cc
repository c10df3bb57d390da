#include "ctl/output/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "formats/base/whole_file.h"

namespace profd {
namespace {

// A rename may replace a regular file, but not a pipe or a device.
bool is_replaceable(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode);
}

}  // namespace

Result<OutputFile> OutputFile::open(const std::string& path) {
  OutputFile file;
  file.path_ = path;
  if (path == "-") {
    file.fd_.reset(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  } else if (is_replaceable(path)) {
    file.temporary_ = path + ".profctl-" + std::to_string(::getpid());
    file.fd_.reset(::open(file.temporary_.c_str(),
                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file.fd_.valid()) file.temporary_.clear();
  } else {
    file.fd_.reset(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  }
  if (!file.fd_.valid()) return fail_errno("could not write to " + path);
  return file;
}

OutputFile::~OutputFile() {
  if (fd_.valid() && !temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::string_view bytes) {
  if (error_ == 0 && !write_all(fd_.get(), bytes)) error_ = errno;
}

Result<void> OutputFile::commit() {
  if (error_ != 0) return fail_errno("could not write to " + path_, error_);
  if (temporary_.empty()) return {};
  if (::fsync(fd_.get()) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return fail_errno("could not write to " + path_);
  }
  temporary_.clear();
  return {};
}

}  // namespace profd
