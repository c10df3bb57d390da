#include "ctl/output/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <stdio.h>

namespace profd {
namespace {

namespace fs = std::filesystem;

Error failed(const std::string& what, int error) {
  return fail(ErrorCode::kIo, what + ": " + std::strerror(error), kKept);
}

Error is_there(const fs::path& path) {
  return fail(ErrorCode::kIo, path.string() + " is there already, and no file is overwritten",
              "give another directory with -o");
}

// The part before the last slash, and the name behind it.
std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

bool is_taken(const fs::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

Result<void> write_all(int fd, std::string_view bytes, const fs::path& shown) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("could not write " + shown.string(), errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(fd) != 0) return failed("could not write " + shown.string(), errno);
  return {};
}

// Some file systems can't rename without replacing; a hard link refuses an existing name just as
// well.
bool move_without_replacing(int directory, const char* from, const char* to) {
  if (::renameat2(directory, from, directory, to, RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  return ::linkat(directory, from, directory, to, 0) == 0 && ::unlinkat(directory, from, 0) == 0;
}

Error unusable(const std::string& what, int error) {
  return fail(ErrorCode::kIo, what + ": " + std::strerror(error), "give another directory with -o");
}

bool may_make_files_in(const fs::path& directory) {
  return ::access(directory.c_str(), W_OK | X_OK) == 0;
}

// `path` is absent: whether what is there of the way to it lets directories be made.
Result<void> check_it_can_be_made(const fs::path& path) {
  std::error_code error;
  fs::path above = fs::absolute(path, error).parent_path();
  while (!fs::exists(above, error) && above.has_relative_path()) above = above.parent_path();
  if (!fs::is_directory(above, error)) return unusable("could not make " + path.string(), ENOTDIR);
  if (!may_make_files_in(above)) return unusable("could not make " + path.string(), errno);
  return {};
}

}  // namespace

Result<void> OutputDirectory::check(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return unusable("could not look at " + path.string(), errno);
    return check_it_can_be_made(path);
  }
  if (!S_ISDIR(info.st_mode)) return is_there(path);
  if (is_taken(path / "session.json")) return is_there(path / "session.json");
  if (!may_make_files_in(path)) return unusable("could not write to " + path.string(), errno);
  return {};
}

Result<OutputDirectory> OutputDirectory::open(const fs::path& path,
                                              const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (is_taken(path / file)) return is_there(path / file);
  }
  OutputDirectory output;
  output.shown_ = path;
  if (auto made = output.make(path); !made) return made.error();
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return failed("could not open " + path.string(), errno);
  output.directories_.emplace("", std::move(fd));
  std::error_code error;
  output.absolute_ = fs::canonical(path, error);
  if (error) return failed("could not open " + path.string(), error.value());
  return output;
}

OutputDirectory::~OutputDirectory() {
  for (const std::string& path : written_) {
    const auto [parent, name] = split(path);
    ::unlinkat(directories_.at(parent).get(), name.c_str(), 0);
  }
  for (auto path = made_below_.rbegin(); path != made_below_.rend(); ++path) {
    const auto [parent, name] = split(*path);
    ::unlinkat(directories_.at(parent).get(), name.c_str(), AT_REMOVEDIR);
  }
  for (auto path = made_.rbegin(); path != made_.rend(); ++path) ::rmdir(path->c_str());
}

// With the directories above it, each noted to be taken away again.
Result<void> OutputDirectory::make(const fs::path& path) {
  fs::path so_far;
  for (const fs::path& component : path) {
    so_far /= component;
    if (::mkdir(so_far.c_str(), 0777) == 0) {
      made_.push_back(so_far);
    } else if (errno != EEXIST && errno != EISDIR) {
      return failed("could not make " + so_far.string(), errno);
    }
  }
  return {};
}

Result<int> OutputDirectory::directory(const std::string& path) {
  const auto known = directories_.find(path);
  if (known != directories_.end()) return known->second.get();
  const auto [parent_path, name] = split(path);
  const auto parent = directory(parent_path);
  if (!parent) return parent.error();
  const fs::path shown = shown_ / path;
  if (::mkdirat(*parent, name.c_str(), 0777) == 0) {
    made_below_.push_back(path);
  } else if (errno != EEXIST) {
    return failed("could not make " + shown.string(), errno);
  }
  UniqueFd fd(::openat(*parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return failed("could not open " + shown.string(), errno);
  return directories_.emplace(path, std::move(fd)).first->second.get();
}

Result<void> OutputDirectory::write(const std::string& path, std::string_view bytes) {
  const auto [parent_path, name] = split(path);
  const auto parent = directory(parent_path);
  if (!parent) return parent.error();
  const fs::path shown = shown_ / path;
  const std::string temporary = ".profctl." + std::to_string(::getpid());
  const UniqueFd fd(::openat(*parent, temporary.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd.valid()) return failed("could not make " + shown.string(), errno);
  auto written = write_all(fd.get(), bytes, shown);
  if (written && !move_without_replacing(*parent, temporary.c_str(), name.c_str())) {
    written = errno == EEXIST ? is_there(shown) : failed("could not make " + shown.string(), errno);
  }
  if (!written) {
    ::unlinkat(*parent, temporary.c_str(), 0);
    return written;
  }
  written_.push_back(path);
  return {};
}

Result<void> OutputDirectory::sync() {
  for (const auto& [path, fd] : directories_) {
    // Not every file system can do this for a directory.
    if (::fsync(fd.get()) != 0 && errno != EINVAL) {
      return failed("could not write " + (shown_ / path).string(), errno);
    }
  }
  return {};
}

void OutputDirectory::keep() {
  made_.clear();
  made_below_.clear();
  written_.clear();
}

}  // namespace profd
