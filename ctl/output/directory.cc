#include "ctl/output/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "ctl/output/file.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kElsewhere = "give another directory with -o";

Error failed(const char* action, const fs::path& path, int error, const char* hint) {
  const std::string what = std::string("could not ") + action + " " + path.string();
  const bool is_refused = error == EACCES || error == EPERM;
  return fail(is_refused ? ErrorCode::kPermissionDenied : ErrorCode::kIo,
              what + ": " + std::strerror(error), hint);
}

Error already_exists(const fs::path& path) {
  return fail(ErrorCode::kIo, path.string() + " exists, and no file is overwritten", kElsewhere);
}

bool is_taken(const fs::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

bool may_make_files_in(const fs::path& directory) {
  return ::access(directory.c_str(), W_OK | X_OK) == 0;
}

// `path` is absent: whether the nearest directory above it that exists lets it be made.
Result<void> check_parents(const fs::path& path) {
  std::error_code error;
  fs::path above = fs::absolute(path, error).parent_path();
  while (!fs::exists(above, error) && above.has_relative_path()) above = above.parent_path();
  if (!fs::is_directory(above, error)) return failed("make", path, ENOTDIR, kElsewhere);
  if (!may_make_files_in(above)) return failed("make", path, errno, kElsewhere);
  return {};
}

// The path up to the last slash, and the name after it.
std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace

Result<void> OutputDirectory::check(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return failed("check", path, errno, kElsewhere);
    return check_parents(path);
  }
  if (!S_ISDIR(info.st_mode)) return already_exists(path);
  if (is_taken(path / "session.json")) return already_exists(path / "session.json");
  if (!may_make_files_in(path)) return failed("write to", path, errno, kElsewhere);
  return {};
}

Result<OutputDirectory> OutputDirectory::open(const fs::path& path,
                                              const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (is_taken(path / file)) return already_exists(path / file);
  }
  OutputDirectory output;
  output.shown_ = path;
  if (auto made = output.make(path); !made) return made.error();
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return failed("open", path, errno, kKeptElsewhere);
  output.directories_.emplace("", std::move(fd));
  std::error_code error;
  output.absolute_ = fs::canonical(path, error);
  if (error) return failed("open", path, error.value(), kKeptElsewhere);
  return output;
}

OutputDirectory::~OutputDirectory() {
  for (auto made = made_.rbegin(); made != made_.rend(); ++made) {
    ::unlinkat(made->parent, made->name.c_str(), made->is_directory ? AT_REMOVEDIR : 0);
  }
}

// Makes the directory and those above it.
Result<void> OutputDirectory::make(const fs::path& path) {
  fs::path so_far;
  for (const fs::path& component : path) {
    so_far /= component;
    if (::mkdir(so_far.c_str(), 0777) == 0) {
      made_.push_back({AT_FDCWD, so_far, true});
    } else if (errno != EEXIST && errno != EISDIR) {
      return failed("make", so_far, errno, kKeptElsewhere);
    }
  }
  return {};
}

// A directory below this one, made if it is absent. A symbolic link is not followed.
Result<int> OutputDirectory::directory(const std::string& path) {
  const auto known = directories_.find(path);
  if (known != directories_.end()) return known->second.get();
  const auto [parent_path, name] = split(path);
  const auto parent = directory(parent_path);
  if (!parent) return parent.error();
  if (::mkdirat(*parent, name.c_str(), 0777) == 0) {
    made_.push_back({*parent, name, true});
  } else if (errno != EEXIST) {
    return failed("make", shown_ / path, errno, kKeptElsewhere);
  }
  UniqueFd fd(::openat(*parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return failed("open", shown_ / path, errno, kKeptElsewhere);
  return directories_.emplace(path, std::move(fd)).first->second.get();
}

Result<void> OutputDirectory::write(const std::string& path, std::string_view bytes) {
  const auto [parent_path, name] = split(path);
  const auto parent = directory(parent_path);
  if (!parent) return parent.error();
  const std::string temporary = ".profctl." + std::to_string(::getpid());
  const UniqueFd fd(::openat(*parent, temporary.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd.valid()) return failed("make", shown_ / path, errno, kKeptElsewhere);
  int error = write_all(fd.get(), bytes) && ::fsync(fd.get()) == 0 ? 0 : errno;
  if (error == 0) error = move_without_replacing(*parent, temporary.c_str(), name.c_str());
  if (error == 0) {
    made_.push_back({*parent, name, false});
    return {};
  }
  ::unlinkat(*parent, temporary.c_str(), 0);
  return error == EEXIST ? already_exists(shown_ / path)
                         : failed("write", shown_ / path, error, kKeptElsewhere);
}

Result<void> OutputDirectory::sync() {
  for (const auto& [path, fd] : directories_) {
    // EINVAL: the file system can't do this for a directory.
    if (::fsync(fd.get()) != 0 && errno != EINVAL) {
      return failed("write", shown_ / path, errno, kKeptElsewhere);
    }
  }
  return {};
}

}  // namespace profd
