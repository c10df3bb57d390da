#include "daemon/names/file_identity.h"

#include <sys/stat.h>

#include <boost/container_hash/hash.hpp>
#include <fmt/core.h>

#include "collectors/files/debug_files.h"
#include "collectors/host/clock.h"

namespace profd {
namespace {

constexpr std::size_t kIdBytes = 100;

// With the time of the last change, since a file that is written in place keeps its inode.
std::string hex_of_key(const FileKey& key) {
  return fmt::format("{:x}-{:x}-{:x}-{:x}", key.device, key.inode, key.generation, key.ctime_ns);
}

// 8 digits, so that two files of one owner do not get the same by chance. Files of root differ by
// their build id.
std::string hex_of_content(std::uint64_t size_bytes, const ElfSummary& elf) {
  std::size_t hash = elf.type;
  boost::hash_combine(hash, size_bytes);
  boost::hash_combine(hash, elf.machine);
  for (const ElfSegment& segment : elf.segments) {
    for (const std::uint64_t field :
         {segment.offset, segment.vaddr, segment.memory_bytes, std::uint64_t{segment.flags}}) {
      boost::hash_combine(hash, field);
    }
  }
  return fmt::format("{:08x}", hash & 0xffffffff);
}

}  // namespace

std::string file_identity(const MappedFile& file, const ElfSummary& elf) {
  const std::string id = elf.build_id.empty() ? hex_of_key(file.key) : to_hex(elf.build_id);
  const std::string owner = file.owner == 0 ? "" : "-u" + std::to_string(file.owner);
  return fmt::format("{}-{}{}", id.substr(0, kIdBytes), hex_of_content(file.key.size_bytes, elf),
                     owner);
}

bool still_has_its_bytes(const MappedFile& file) {
  struct stat status {};
  if (::fstat(file.fd.get(), &status) != 0) return false;
  // Programs that set the time of a file, as Go's linker does, can set one after its change time.
  const bool is_unchanged = nanoseconds_of(status.st_ctim) == file.key.ctime_ns ||
                            nanoseconds_of(status.st_mtim) <= file.key.ctime_ns;
  return is_unchanged && static_cast<std::uint64_t>(status.st_size) == file.key.size_bytes;
}

}  // namespace profd
