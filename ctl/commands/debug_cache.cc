#include "ctl/commands/debug_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include <boost/algorithm/hex.hpp>

#include "formats/base/errors.h"
#include "formats/base/whole_file.h"
#include "formats/elf/elf_file.h"

namespace profd {
namespace {

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
// The other members of the group add files too.
constexpr mode_t kDirectoryMode = 02775;
constexpr mode_t kFileMode = 0644;
constexpr const char* kHint =
    "root and the group profd can write there; the profile is complete without lines too";

std::string name_in_place(const std::string& build_id) { return build_id.substr(2) + ".debug"; }

Result<UniqueFd> open_subdirectory(int parent, const std::string& name) {
  if (::mkdirat(parent, name.c_str(), kDirectoryMode) == 0) {
    // The mask of the caller does not count.
    (void)::fchmodat(parent, name.c_str(), kDirectoryMode, 0);
  } else if (errno != EEXIST) {
    return fail_errno("could not create " + name);
  }
  UniqueFd fd(::openat(parent, name.c_str(), kDirectoryFlags));
  if (!fd.valid()) return fail_errno("could not open " + name);
  return fd;
}

Result<void> check_build_id(int fd, const std::string& build_id) {
  const Result<ElfSummary> elf = read_elf_summary(fd);
  if (!elf) return elf.error();
  const std::string found = boost::algorithm::hex_lower(elf->build_id);
  if (found == build_id) return {};
  return malformed("the server sent a file with " +
                   (found.empty() ? "no build id" : "build id " + found));
}

// A file that is not complete yet.
class PartialFile {
 public:
  PartialFile(int directory, const std::string& build_id)
      : directory_(directory),
        name_(".partial-" + std::to_string(::getpid()) + "-" + build_id),
        fd_(::openat(directory, name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     kFileMode)) {}
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile() {
    if (fd_.valid() && !is_renamed_) (void)::unlinkat(directory_, name_.c_str(), 0);
  }

  [[nodiscard]] int fd() const { return fd_.get(); }

  // The change time of `place` changes, by which the daemon sees that there is a new file.
  Result<void> rename_to(int place, const std::string& name) {
    (void)::fchmod(fd_.get(), kFileMode);
    if (::fsync(fd_.get()) != 0 ||
        ::renameat(directory_, name_.c_str(), place, name.c_str()) != 0) {
      return fail_errno("could not write " + name);
    }
    is_renamed_ = true;
    return {};
  }

 private:
  int directory_;
  std::string name_;
  UniqueFd fd_;
  bool is_renamed_ = false;
};

// The names in a directory, without those of partial files and links to directories.
std::vector<std::string> names_in(int directory) {
  const int copy = ::openat(directory, ".", kDirectoryFlags);
  if (copy < 0) return {};
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(copy), &::closedir);
  std::vector<std::string> names;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the list belongs to this function.
  while (const dirent* const entry = list ? ::readdir(list.get()) : nullptr) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

struct StoredFile {
  std::string place;  // the directory of the first two digits
  std::string name;
  std::uint64_t bytes = 0;              // on the disk
  std::pair<std::time_t, long> used{};  // seconds, nanoseconds
};

void append_files(int ids, const std::string& place, std::vector<StoredFile>& to) {
  constexpr std::uint64_t kBlockBytes = 512;
  const UniqueFd directory(::openat(ids, place.c_str(), kDirectoryFlags));
  if (!directory.valid()) return;
  for (std::string& name : names_in(directory.get())) {
    struct stat status {};
    if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode)) {
      continue;
    }
    const std::pair read(status.st_atim.tv_sec, status.st_atim.tv_nsec);
    const std::pair written(status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    to.push_back({.place = place,
                  .name = std::move(name),
                  .bytes = static_cast<std::uint64_t>(status.st_blocks) * kBlockBytes,
                  .used = std::max(read, written)});
  }
}

bool remove_file(int ids, const StoredFile& file) {
  const UniqueFd directory(::openat(ids, file.place.c_str(), kDirectoryFlags));
  return directory.valid() && ::unlinkat(directory.get(), file.name.c_str(), 0) == 0;
}

}  // namespace

Result<DebugCache> DebugCache::open(const std::string& directory) {
  DebugCache cache;
  cache.path_ = directory;
  cache.directory_.reset(::open(directory.c_str(), kDirectoryFlags));
  if (!cache.directory_.valid()) {
    Error error = fail_errno("could not open " + directory);
    error.hint = error.code == ErrorCode::kNotFound
                     ? "the package makes it; without the package: mkdir -p " + directory
                     : kHint;
    return error;
  }
  if (::faccessat(cache.directory_.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
    Error error = fail_errno("could not write to " + directory);
    error.hint = kHint;
    return error;
  }
  return cache;
}

bool DebugCache::has(const std::string& build_id) const {
  const std::string path = ".build-id/" + build_id.substr(0, 2) + "/" + name_in_place(build_id);
  return ::faccessat(directory_.get(), path.c_str(), F_OK, 0) == 0;
}

Result<UniqueFd> DebugCache::open_place(const std::string& build_id) const {
  Result<UniqueFd> ids = open_subdirectory(directory_.get(), ".build-id");
  if (!ids) return ids;
  return open_subdirectory(ids->get(), build_id.substr(0, 2));
}

Result<void> DebugCache::copy(int from, int to, std::uint64_t bytes) const {
  std::array<char, 1 << 16> block{};
  for (std::uint64_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(from, block.data(), block.size(), static_cast<off_t>(done));
    if (got <= 0) return fail(ErrorCode::kIo, "could not read the downloaded file");
    if (!write_all(to, {block.data(), static_cast<std::size_t>(got)})) {
      return fail_errno("could not write to " + path_);
    }
    done += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<std::uint64_t> DebugCache::store(const std::string& build_id, int fd,
                                        std::uint64_t max_bytes) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail_errno("could not stat the downloaded file");
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes > max_bytes) return fail(ErrorCode::kTooLarge, "the file is larger than --max-size");
  const Result<UniqueFd> place = open_place(build_id);
  if (!place) return place.error();
  PartialFile file(directory_.get(), build_id);
  if (file.fd() < 0) return fail_errno("could not create a file in " + path_);
  if (auto copied = copy(fd, file.fd(), bytes); !copied) return copied.error();
  // Of the copy, since the daemon reads that.
  if (auto checked = check_build_id(file.fd(), build_id); !checked) return checked.error();
  if (auto renamed = file.rename_to(place->get(), name_in_place(build_id)); !renamed) {
    return renamed.error();
  }
  return bytes;
}

std::size_t DebugCache::remove_oldest(std::uint64_t max_bytes, const std::string& kept) const {
  const UniqueFd ids(::openat(directory_.get(), ".build-id", kDirectoryFlags));
  if (!ids.valid()) return 0;
  std::vector<StoredFile> files;
  for (const std::string& place : names_in(ids.get())) append_files(ids.get(), place, files);
  std::uint64_t bytes = 0;
  for (const StoredFile& file : files) bytes += file.bytes;
  std::ranges::sort(files, {}, &StoredFile::used);
  std::size_t removed = 0;
  for (const StoredFile& file : files) {
    if (bytes <= max_bytes) break;
    if (file.place + file.name == kept + ".debug" || !remove_file(ids.get(), file)) continue;
    bytes -= file.bytes;
    ++removed;
  }
  return removed;
}

}  // namespace profd
