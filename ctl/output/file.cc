#include "ctl/output/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <stdio.h>

#include "formats/base/errors.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

// A rename may replace a regular file, but not a pipe or a device.
bool is_replaceable(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode);
}

// A link leads to the file.
bool is_regular_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

constexpr const char* kAnotherFile = "give another file with -o";

Error already_exists(const std::string& path) {
  return fail(ErrorCode::kIo, path + " exists, and no file is overwritten", kAnotherFile);
}

Error not_written(const std::string& path, int error) {
  if (error == ENXIO) return fail(ErrorCode::kIo, "nobody reads " + path, "start its reader first");
  const std::string what = "could not write to " + (path == "-" ? "standard output" : path);
  Error failed = of_own_file(fail_errno(what, error));
  failed.hint = kAnotherFile;
  return failed;
}

// Neither the open waits for a reader, nor a write without a signal that ends it.
UniqueFd open_directly(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (fd.valid()) ::fcntl(fd.get(), F_SETFL, 0);
  return fd;
}

void let_signals_end_program() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace

// Some file systems can't rename without replacing. A hard link refuses an existing name too.
int move_without_replacing(int directory, const char* from, const char* to) {
  if (::renameat2(directory, from, directory, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  const bool linked = ::linkat(directory, from, directory, to, 0) == 0;
  return linked && ::unlinkat(directory, from, 0) == 0 ? 0 : errno;
}

Result<OutputFile> OutputFile::open(const std::string& path, ExistingFile existing) {
  OutputFile file;
  file.path_ = path;
  file.existing_ = existing;
  if (path == "-") {
    file.fd_.reset(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  } else if (existing == ExistingFile::kRefused && is_regular_file(path)) {
    return already_exists(path);
  } else if (is_replaceable(path)) {
    file.temporary_ = path + ".profctl-" + std::to_string(::getpid());
    file.fd_.reset(::open(file.temporary_.c_str(),
                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file.fd_.valid()) file.temporary_.clear();
  } else {
    file.fd_ = open_directly(path);
  }
  if (!file.fd_.valid()) return not_written(path, errno);
  if (file.temporary_.empty()) let_signals_end_program();
  return file;
}

Result<void> OutputFile::check(const std::string& path, ExistingFile existing) {
  if (path == "-") return {};
  if (!is_regular_file(path) && !is_replaceable(path)) {
    const bool may_write = ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
    return may_write ? Result<void>() : not_written(path, errno);
  }
  const Result<OutputFile> file = open(path, existing);
  return file ? Result<void>() : file.error();
}

OutputFile::~OutputFile() {
  if (fd_.valid() && !temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::string_view bytes) {
  if (error_ == 0 && !write_all(fd_.get(), bytes)) error_ = errno;
}

Result<void> OutputFile::commit() {
  if (error_ != 0) return not_written(path_, error_);
  if (temporary_.empty()) return {};
  if (::fsync(fd_.get()) != 0) return not_written(path_, errno);
  if (auto moved = move_into_place(); !moved) return moved;
  temporary_.clear();
  return {};
}

Result<void> OutputFile::move_into_place() const {
  const bool may_replace = existing_ == ExistingFile::kReplaced;
  const int error = may_replace
                        ? (::rename(temporary_.c_str(), path_.c_str()) == 0 ? 0 : errno)
                        : move_without_replacing(AT_FDCWD, temporary_.c_str(), path_.c_str());
  if (error == EEXIST) return already_exists(path_);
  if (error != 0) return not_written(path_, error);
  return {};
}

}  // namespace profd
