#include "daemon/storage/result_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <stdlib.h>

#include "daemon/storage/file_io.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;

}  // namespace

Result<ResultWriter> ResultWriter::create(const std::string& results_dir) {
  UniqueFd results = open_directory(AT_FDCWD, results_dir);
  if (!results.valid()) return fail_errno("could not open " + results_dir);
  std::string path = results_dir + "/.partial-XXXXXX";  // mkdtemp: 0700, a new name
  if (::mkdtemp(path.data()) == nullptr)
    return fail_errno("could not make a directory in " + results_dir);
  const std::string name = path.substr(path.rfind('/') + 1);
  UniqueFd directory = open_directory(results.get(), name);
  if (!directory.valid()) return fail_errno("could not open " + path);
  return ResultWriter(std::move(results), std::move(directory), name);
}

ResultWriter::~ResultWriter() {
  if (results_.valid() && !name_.empty()) (void)remove_tree(results_.get(), name_);
}

Result<void> ResultWriter::add(const std::string& path, std::string_view bytes) {
  if (Result<void> made = add_directory_of(path); !made) return made;
  const UniqueFd file(::openat(directory_.get(), path.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!file.valid()) return fail_errno("could not create " + path);
  if (Result<void> written = write_all(file.get(), bytes, path); !written) return written;
  if (syncs_files_ && ::fsync(file.get()) != 0) return fail_errno("could not write " + path);
  files_.push_back({.path = path, .bytes = bytes.size()});
  return {};
}

Result<std::string> ResultWriter::read_back(const std::string& path) const {
  const UniqueFd file(::openat(directory_.get(), path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid()) return fail_errno("could not open " + path);
  return read_all(file.get(), path);
}

Result<void> ResultWriter::commit(const std::string& name) {
  for (const std::string& subdirectory : subdirectories_) {
    const UniqueFd fd = open_directory(directory_.get(), subdirectory);
    if (!fd.valid() || ::fsync(fd.get()) != 0) return fail_errno("could not sync " + subdirectory);
  }
  if (::fsync(directory_.get()) != 0) return fail_errno("could not sync " + name_);
  if (::renameat2(results_.get(), name_.c_str(), results_.get(), name.c_str(), RENAME_NOREPLACE) !=
      0) {
    if (errno == EEXIST) return fail(ErrorCode::kBusy, "result " + name + " exists already");
    return fail_errno("could not rename " + name_ + " to " + name);
  }
  if (::fsync(results_.get()) != 0) {
    const Error error = fail_errno("could not sync the results directory");
    // Undone, since the next try would find the name taken, and the caller knows of no result.
    if (::renameat2(results_.get(), name.c_str(), results_.get(), name_.c_str(),
                    RENAME_NOREPLACE) != 0) {
      name_.clear();
    }
    return error;
  }
  name_.clear();
  return {};
}

Result<void> ResultWriter::add_directory_of(const std::string& path) {
  const std::size_t slash = path.find('/');
  if (slash == std::string::npos) return {};
  const std::string name = path.substr(0, slash);
  if (std::ranges::find(subdirectories_, name) != subdirectories_.end()) return {};
  if (::mkdirat(directory_.get(), name.c_str(), kDirectoryMode) != 0) {
    return fail_errno("could not make the directory " + name);
  }
  subdirectories_.push_back(name);
  return {};
}

Result<void> remove_tree(int parent, const std::string& name) {
  std::error_code error;
  std::filesystem::remove_all("/proc/self/fd/" + std::to_string(parent) + "/" + name, error);
  if (error) return fail_errno("could not remove " + name, error.value());
  return {};
}

Result<std::string> hide(int parent, const std::string& name) {
  std::string hidden = ".removed-" + name;
  if (::renameat(parent, name.c_str(), parent, hidden.c_str()) == 0) return hidden;
  return fail_errno("could not remove " + name);
}

Result<void> remove_whole(int parent, const std::string& name) {
  const Result<std::string> hidden = hide(parent, name);
  return hidden ? remove_tree(parent, *hidden) : Result<void>(hidden.error());
}

}  // namespace profd
