#include "daemon/profiles/profiled_object.h"

#include <sys/stat.h>

#include <boost/container_hash/hash.hpp>
#include <fmt/core.h>

#include "collectors/files/debug_files.h"
#include "collectors/host/clock.h"
#include "daemon/storage/safe_name.h"

namespace profd {
namespace {

constexpr std::size_t kNameBytes = 100;

std::string hex_of_key(const FileKey& key) {
  return fmt::format("{:x}-{:x}-{:x}", key.device, key.inode, key.generation);
}

// 8 digits, so that two files of one owner do not get the same by chance. Files of root differ by
// their build id.
std::string hex_of_segments(const ElfSummary& elf) {
  std::size_t hash = elf.type;
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

void ProfiledObject::hit(std::uint64_t file_offset) {
  if (!image_) return;
  if (const Result<std::uint64_t> address = vaddr_of_offset(image_->elf, file_offset)) {
    image_->hit_addresses.insert(*address);
  }
}

ProfiledObject& ProfiledObjects::named(const std::string& line_path) {
  return by_line_path_.try_emplace(line_path, line_path).first->second;
}

ProfiledObject& ProfiledObjects::with_image(const std::string& line_path,
                                            ProfiledObject::Image&& image) {
  return by_line_path_.try_emplace(line_path, line_path, std::move(image)).first->second;
}

std::string line_path_of_image(const std::string& name) {
  return std::string(kBuildPrefix) + "objects/" + name + ".so";
}

std::string path_in_result(const std::string& line_path) {
  return line_path.substr(kBuildPrefix.size());
}

std::string bracketed_name(const std::string& path) { return "[" + plain_name(path) + "]"; }

std::string image_name(const MappedFile& file, const ElfSummary& elf) {
  const std::string id = elf.build_id.empty() ? hex_of_key(file.key) : to_hex(elf.build_id);
  const std::string owner = file.owner == 0 ? "" : "-u" + std::to_string(file.owner);
  return fmt::format("{}-{}-{}{}", plain_name(file.path), id.substr(0, kNameBytes),
                     hex_of_segments(elf), owner);
}

std::string plain_name(const std::string& path) {
  return safe_file_name(path.substr(path.rfind('/') + 1), kNameBytes);
}

bool still_has_its_bytes(const MappedFile& file) {
  struct stat status {};
  return ::fstat(file.fd.get(), &status) == 0 &&
         static_cast<std::uint64_t>(status.st_size) == file.key.size_bytes &&
         nanoseconds_of(status.st_mtim) <= file.key.ctime_ns;
}

}  // namespace profd
