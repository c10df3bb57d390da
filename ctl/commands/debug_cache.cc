#include "ctl/commands/debug_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

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

}  // namespace

Result<DebugCache> DebugCache::open(const std::string& directory) {
  DebugCache cache;
  cache.path_ = directory;
  cache.directory_.reset(::open(directory.c_str(), kDirectoryFlags));
  if (!cache.directory_.valid()) {
    Error error = fail_errno("could not open " + directory);
    error.hint = error.code == ErrorCode::kNotFound
                     ? "the package makes it: systemd-tmpfiles --create profd.conf"
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

}  // namespace profd
