#include "formats/elf/debug_link.h"

#include <array>

#include <libdeflate.h>

#include "formats/base/cursor.h"
#include "formats/elf/elf_file.h"
#include "formats/elf/elf_tables.h"

namespace profd {
namespace {

// A name, padded to 4 bytes, and the checksum.
constexpr std::uint64_t kMaxLinkSectionBytes = 512;

DebugFileMatch match_checksum(int debug_fd, std::uint32_t expected) {
  std::array<char, 1 << 16> block{};
  if (elf::read_up_to(debug_fd, kMaxChecksumBytes, block.data(), 1) != 0) {
    return DebugFileMatch::kTooLarge;
  }
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < kMaxChecksumBytes; done += block.size()) {
    const std::size_t got = elf::read_up_to(debug_fd, done, block.data(), block.size());
    crc = ::libdeflate_crc32(crc, block.data(), got);
    if (got < block.size()) break;
  }
  return crc == expected ? DebugFileMatch::kMatches : DebugFileMatch::kOtherChecksum;
}

}  // namespace

std::optional<DebugLink> read_debug_link(const CodeFile& file) {
  const Elf64_Shdr* const section = file.find_section(".gnu_debuglink");
  if (section == nullptr || section->sh_size > kMaxLinkSectionBytes) return std::nullopt;
  const std::string bytes = file.read(section->sh_offset, section->sh_size);
  DebugLink link{.name = bytes.substr(0, bytes.find('\0'))};
  if (link.name.empty() || link.name.size() > kMaxDebugLinkBytes) return std::nullopt;
  if (link.name.find('/') != std::string::npos || link.name == "." || link.name == "..") {
    return std::nullopt;
  }
  Cursor cursor(bytes);
  cursor.read_bytes(link.name.size() + 1);
  cursor.align(4);
  link.crc = cursor.read<std::uint32_t>();
  if (!cursor.ok()) return std::nullopt;
  return link;
}

Result<DebugFileMatch> match_debug_file(int fd, int debug_fd) {
  const Result<CodeFile> file = CodeFile::open(fd);
  if (!file) return file.error();
  const Result<ElfSummary> elf = read_elf_summary(fd);
  if (!elf) return elf.error();
  const Result<ElfSummary> debug = read_elf_summary(debug_fd);
  if (!debug) return debug.error();
  if (!elf->build_id.empty() && !debug->build_id.empty()) {
    return elf->build_id == debug->build_id ? DebugFileMatch::kMatches
                                            : DebugFileMatch::kOtherBuildId;
  }
  const auto link = read_debug_link(*file);
  return link ? match_checksum(debug_fd, link->crc) : DebugFileMatch::kOtherChecksum;
}

}  // namespace profd
