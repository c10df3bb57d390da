#include "collectors/files/debug_files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string_view>

#include <boost/algorithm/hex.hpp>
#include <boost/crc.hpp>

#include "collectors/files/reach.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

constexpr off_t kMaxDebugBytes = off_t{4} << 30;
constexpr std::chrono::seconds kMaxChecksumTime{2};
constexpr std::size_t kMinIdBytes = 2;
constexpr std::size_t kMaxIdBytes = 64;

// Symbolic links are followed as long as they stay below the root. What not everybody may read is
// not for everybody who makes a file with the same build id.
UniqueFd open_below(int root, const std::string& path) {
  UniqueFd fd = open_resolved(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                              RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
  struct stat status {};
  if (fd.valid() &&
      (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != 0 ||
       (status.st_mode & S_IROTH) == 0 || status.st_size > kMaxDebugBytes)) {
    fd.reset();
  }
  return fd;
}

// False also after kMaxChecksumTime, since other files wait for their tables meanwhile.
bool has_checksum(int fd, std::uint32_t expected) {
  const auto end = std::chrono::steady_clock::now() + kMaxChecksumTime;
  boost::crc_32_type crc;
  std::array<char, 1 << 16> block;
  off_t at = 0;
  for (;;) {
    const ssize_t got = ::pread(fd, block.data(), block.size(), at);
    if (got <= 0) return got == 0 && crc.checksum() == expected;
    crc.process_bytes(block.data(), static_cast<std::size_t>(got));
    at += got;
    if (std::chrono::steady_clock::now() > end) return false;
  }
}

std::string path_by_link(const std::string& link, const std::string& path) {
  const auto slash = path.rfind('/');
  if (link.empty() || link.find('/') != std::string::npos || !path.starts_with('/')) return {};
  return path.substr(1, slash) + link;
}

// Links are absolute (Debian) or start at the debug file (Fedora).
std::string path_by_alt_link(const std::string& link) {
  const auto start = link.find(".dwz/");
  const bool is_directory = start == 0 || (start != link.npos && link[start - 1] == '/');
  return is_directory ? link.substr(start) : std::string();
}

}  // namespace

std::string debug_path_of(std::string_view build_id) {
  if (build_id.size() < kMinIdBytes || build_id.size() > kMaxIdBytes) return {};
  const std::string hex = to_hex(build_id);
  return ".build-id/" + hex.substr(0, 2) + "/" + hex.substr(2) + ".debug";
}

std::string to_hex(std::string_view bytes) {
  return boost::algorithm::hex_lower(std::string(bytes));
}

UniqueFd open_debug_file(const UnwindSource& source, const std::string& path,
                         const std::string& root) {
  const UniqueFd directory(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return {};
  if (const std::string below = debug_path_of(source.build_id); !below.empty()) {
    if (UniqueFd fd = open_below(directory.get(), below); fd.valid()) return fd;
  }
  if (const std::string below = path_by_link(source.debug_link, path); !below.empty()) {
    UniqueFd fd = open_below(directory.get(), below);
    if (fd.valid() && has_checksum(fd.get(), source.debug_link_crc)) return fd;
  }
  return {};
}

UniqueFd open_alt_file(const std::string& link, const std::string& build_id,
                       const std::string& root) {
  const UniqueFd directory(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || build_id.empty()) return {};
  for (const std::string& below : {debug_path_of(build_id), path_by_alt_link(link)}) {
    if (below.empty()) continue;
    UniqueFd fd = open_below(directory.get(), below);
    if (fd.valid() && may_be_reached_by_others(fd.get())) return fd;
  }
  return {};
}

}  // namespace profd
