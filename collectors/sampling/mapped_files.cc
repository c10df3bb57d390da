#include "collectors/sampling/mapped_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdio>
#include <fstream>

#include <boost/container_hash/hash.hpp>

#include "formats/proc_maps.h"

namespace profd {
namespace {

// No O_NOFOLLOW: a map_files entry is a link that only the kernel can make. O_NONBLOCK: a write
// lease would stall an open of a regular file for 45 s, and a FIFO for ever.
constexpr int kOpenFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr off_t kMaxFileBytes = off_t{4} << 30;
constexpr std::string_view kDeletedSuffix = " (deleted)";
constexpr std::size_t kMaxMapsLines = 70'000;  // a little over vm.max_map_count

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Device and inode are not asked for where the change time fits: on an overlay, fstat's are the
// overlay's and the key's the layer's. An unlink or chmod moves the change time of a file whose
// bytes are still those that ran.
bool same_content(const FileKey& key, const struct stat& status) {
  if (key.size_bytes != static_cast<std::uint64_t>(status.st_size)) return false;
  if (key.ctime_ns == nanoseconds(status.st_ctim)) return true;
  return key.inode == status.st_ino && nanoseconds(status.st_mtim) <= key.ctime_ns;
}

struct Opened {
  UniqueFd fd;
  struct stat status {};
  std::string error;
};

Opened open_regular(const std::string& path, const FileKey& key) {
  Opened opened;
  opened.fd.reset(::open(path.c_str(), kOpenFlags));
  if (!opened.fd.valid()) {
    opened.error = fail_errno("open").message;
  } else if (::fstat(opened.fd.get(), &opened.status) != 0) {
    opened.error = fail_errno("fstat").message;
  } else if (!S_ISREG(opened.status.st_mode)) {
    opened.error = "not a regular file";
  } else if (opened.status.st_size > kMaxFileBytes) {
    opened.error = "larger than 4 GiB";
  } else if (!same_content(key, opened.status)) {
    opened.error = "changed since it was sampled";
  }
  if (!opened.error.empty()) opened.fd.reset();
  return opened;
}

std::string map_files_path(std::uint32_t tgid, std::uint64_t start, std::uint64_t end) {
  std::array<char, 96> path{};
  std::snprintf(path.data(), path.size(), "/proc/%u/map_files/%lx-%lx", tgid, start, end);
  return path.data();
}

std::string read_link(const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t bytes = ::readlink(path.c_str(), target.data(), target.size());
  return bytes > 0 ? std::string(target.data(), static_cast<std::size_t>(bytes)) : std::string();
}

// A link target may end in " (deleted)" because the file is, or because it is called so.
bool is_deleted(const std::string& link, const struct stat& status) {
  if (!link.ends_with(kDeletedSuffix)) return false;
  if (status.st_nlink == 0) return true;
  struct stat named {};
  return ::stat(link.c_str(), &named) != 0 || named.st_ino != status.st_ino;
}

// The mapping may have been split or joined since: the one that holds the start now. Empty when
// there is none.
std::string present_map_files_path(const MappingView& mapping) {
  std::ifstream maps("/proc/" + std::to_string(mapping.process.tgid) + "/maps");
  std::size_t lines = 0;
  for (std::string text; std::getline(maps, text) && ++lines < kMaxMapsLines;) {
    const Result<MapsLine> line = parse_maps_line(text);
    if (line && line->start <= mapping.start && mapping.start < line->limit) {
      return map_files_path(mapping.process.tgid, line->start, line->limit);
    }
  }
  return {};
}

MappedFile from_link(const FileKey& key, const std::string& link_path, Opened opened) {
  MappedFile file{.key = key, .path = read_link(link_path), .fd = std::move(opened.fd)};
  file.deleted = is_deleted(file.path, opened.status);
  if (file.deleted) file.path.resize(file.path.size() - kDeletedSuffix.size());
  return file;
}

MappedFile from_names(const MappingView& mapping, const std::string& error) {
  MappedFile file{.key = mapping.file, .path = path_from_names(mapping.names)};
  if (file.path.empty()) file.path = "?";
  Opened opened = open_regular(file.path, mapping.file);
  if (opened.fd.valid() && opened.status.st_ino == mapping.file.inode) {
    file.fd = std::move(opened.fd);
  } else {
    file.error = "map_files: " + error + "; " + file.path + ": " +
                 (opened.error.empty() ? "another file" : opened.error);
  }
  return file;
}

MappedFile open_file(const MappingView& mapping) {
  const std::string exact = map_files_path(mapping.process.tgid, mapping.start, mapping.end);
  Opened opened = open_regular(exact, mapping.file);
  if (opened.fd.valid()) return from_link(mapping.file, exact, std::move(opened));
  if (const std::string present = present_map_files_path(mapping); !present.empty()) {
    Opened again = open_regular(present, mapping.file);
    if (again.fd.valid()) return from_link(mapping.file, present, std::move(again));
  }
  return from_names(mapping, opened.error);
}

}  // namespace

std::size_t MappedFiles::KeyHash::operator()(const FileKey& key) const noexcept {
  std::size_t seed = 0;
  boost::hash_combine(seed, key.inode);
  boost::hash_combine(seed, key.size_bytes);
  boost::hash_combine(seed, key.ctime_ns);
  boost::hash_combine(seed, key.device);
  boost::hash_combine(seed, key.generation);
  return seed;
}

std::shared_ptr<const MappedFile> MappedFiles::find_or_open(const MappingView& mapping) {
  if (mapping.file.empty()) return nullptr;
  const auto found = files_.find(mapping.file);
  if (found != files_.end() && found->second->fd.valid()) return found->second;
  // One that could not be opened is tried again: another process may still have it mapped.
  auto file = std::make_shared<const MappedFile>(open_file(mapping));
  files_.insert_or_assign(mapping.file, file);
  return file;
}

void MappedFiles::release_unused() {
  boost::unordered::erase_if(files_,
                             [](const auto& entry) { return entry.second.use_count() == 1; });
}

std::string path_from_names(std::string_view names) {
  std::string path;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find('\0'), names.size());
    path.insert(0, "/" + std::string(names.substr(0, end)));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return path;
}

}  // namespace profd
