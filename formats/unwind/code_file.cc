#include "formats/unwind/code_file.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include <boost/endian/conversion.hpp>

#include "formats/base/cursor.h"
#include "formats/base/inflate.h"
#include "formats/elf/dwarf_cursor.h"
#include "formats/elf/elf_tables.h"

namespace profd {
namespace {

constexpr std::uint64_t kMaxNamesBytes = std::uint64_t{1} << 20;
constexpr std::size_t kMaxNameBytes = 64;  // more than that of any name that is searched for
constexpr std::uint64_t kMaxPackedBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kEhFrameHeaderBytes = 16;
constexpr Elf64_Word kCompressedByZlib = 1;  // ELFCOMPRESS_*; glibc 2.36 doesn't know zstd's yet
constexpr Elf64_Word kCompressedByZstd = 2;

Error too_large() { return fail(ErrorCode::kTooLarge, "too much call frame information"); }
Error cut() { return fail(ErrorCode::kMalformed, "call frame information beyond the file's end"); }
Error none() { return fail(ErrorCode::kNotFound, "no call frame information"); }

std::string read_names(int fd, const Elf64_Ehdr& header, const std::vector<Elf64_Shdr>& sections) {
  if (header.e_shstrndx >= sections.size()) return {};
  const Elf64_Shdr& names = sections[header.e_shstrndx];
  std::string bytes(std::min(names.sh_size, kMaxNamesBytes), '\0');
  if (!elf::read_at(fd, names.sh_offset, bytes.data(), bytes.size())) return {};
  return bytes;
}

const Elf64_Phdr* segment_with(const std::vector<Elf64_Phdr>& segments, std::uint64_t vaddr) {
  const auto found = std::ranges::find_if(segments, [&](const Elf64_Phdr& p) {
    return p.p_type == PT_LOAD && vaddr >= p.p_vaddr && vaddr - p.p_vaddr < p.p_filesz;
  });
  return found == segments.end() ? nullptr : &*found;
}

// .eh_frame_hdr: version 1, three encodings, then the address of .eh_frame.
std::optional<std::uint64_t> eh_frame_of_header(std::string_view bytes, std::uint64_t vaddr) {
  Cursor cursor(bytes);
  const auto version = cursor.read<std::uint8_t>();
  const auto encoding = cursor.read<std::uint8_t>();
  cursor.read_bytes(2);
  if (version != 1) return std::nullopt;
  return dwarf::read_pointer(cursor, encoding, vaddr);
}

}  // namespace

Result<CodeFile> CodeFile::open(int fd) {
  CodeFile file;
  file.fd_ = fd;
  const Result<Elf64_Ehdr> header = elf::read_header(fd);
  if (!header) return header.error();
  if (header->e_machine != EM_X86_64) {
    return fail(ErrorCode::kUnsupported, "an ELF file of another machine than x86-64");
  }
  Result<std::vector<Elf64_Phdr>> segments = elf::read_program_headers(fd, *header);
  if (!segments) return segments.error();
  file.header_ = *header;
  file.segments_ = std::move(*segments);
  file.sections_ = elf::read_section_headers(fd, *header);
  file.section_names_ = read_names(fd, *header, file.sections_);
  file.code_ = CodeSegments(file.segments_);
  return file;
}

std::string_view CodeFile::name_of(const Elf64_Shdr& section) const {
  if (section.sh_name >= section_names_.size()) return {};
  const std::string_view rest =
      std::string_view(section_names_).substr(section.sh_name, kMaxNameBytes);
  return rest.substr(0, rest.find('\0'));
}

const Elf64_Shdr* CodeFile::find_section(std::string_view name) const {
  const auto found = std::ranges::find_if(sections_, [&](const Elf64_Shdr& section) {
    return section.sh_type != SHT_NOBITS && section.sh_size > 0 && name_of(section) == name;
  });
  return found == sections_.end() ? nullptr : &*found;
}

std::vector<Elf64_Shdr> CodeFile::code_sections(std::string_view name_prefix) const {
  std::vector<Elf64_Shdr> found;
  std::ranges::copy_if(sections_, std::back_inserter(found), [&](const Elf64_Shdr& section) {
    return section.sh_type == SHT_PROGBITS && (section.sh_flags & SHF_EXECINSTR) != 0 &&
           name_of(section).starts_with(name_prefix);
  });
  return found;
}

std::string CodeFile::read(std::uint64_t offset, std::uint64_t bytes) const {
  std::string content(bytes, '\0');
  if (!elf::read_at(fd_, offset, content.data(), content.size())) content.clear();
  return content;
}

Result<CfiSection> CodeFile::read_eh_frame(std::size_t max_bytes) const {
  const Elf64_Shdr* section = find_section(".eh_frame");
  return section != nullptr ? read_section_eh_frame(*section, max_bytes)
                            : read_segment_eh_frame(max_bytes);
}

Result<CfiSection> CodeFile::read_section_eh_frame(const Elf64_Shdr& section,
                                                   std::size_t max_bytes) const {
  Result<std::string> bytes = read_plain(section, max_bytes);
  if (!bytes) return bytes.error();
  CfiSection found;
  found.bytes = std::move(*bytes);
  found.vaddr = section.sh_addr;
  return found;
}

Result<CfiSection> CodeFile::read_segment_eh_frame(std::size_t max_bytes) const {
  const auto header =
      std::ranges::find(segments_, Elf64_Word{PT_GNU_EH_FRAME}, &Elf64_Phdr::p_type);
  if (header == segments_.end()) return none();
  const auto vaddr =
      eh_frame_of_header(read(header->p_offset, kEhFrameHeaderBytes), header->p_vaddr);
  const Elf64_Phdr* segment = vaddr ? segment_with(segments_, *vaddr) : nullptr;
  if (segment == nullptr) return cut();
  const std::uint64_t skipped = *vaddr - segment->p_vaddr;
  CfiSection found;
  found.vaddr = *vaddr;
  found.has_known_end = false;
  found.bytes = read(segment->p_offset + skipped,
                     std::min<std::uint64_t>(segment->p_filesz - skipped, max_bytes));
  if (found.bytes.empty()) return cut();
  return found;
}

Result<CfiSection> CodeFile::read_debug_frame(std::size_t max_bytes) const {
  const Elf64_Shdr* plain = find_section(".debug_frame");
  const Elf64_Shdr* packed = find_section(".zdebug_frame");
  if (plain == nullptr && packed == nullptr) return none();
  Result<std::string> bytes = plain == nullptr ? read_zdebug(*packed, max_bytes)
                              : (plain->sh_flags & SHF_COMPRESSED) != 0
                                  ? read_compressed(*plain, max_bytes)
                                  : read_plain(*plain, max_bytes);
  if (!bytes) return bytes.error();
  CfiSection found;
  found.bytes = std::move(*bytes);
  found.is_eh_frame = false;
  return found;
}

Result<std::string> CodeFile::read_plain(const Elf64_Shdr& section, std::size_t max_bytes) const {
  if (section.sh_size > max_bytes) return too_large();
  std::string bytes = read(section.sh_offset, section.sh_size);
  if (bytes.empty()) return cut();
  return bytes;
}

Result<std::string> CodeFile::read_compressed(const Elf64_Shdr& section,
                                              std::size_t max_bytes) const {
  const Result<std::string> packed = read_plain(section, kMaxPackedBytes);
  if (!packed) return packed.error();
  Cursor cursor(*packed);
  const auto type = cursor.read<Elf64_Word>();
  cursor.read_bytes(sizeof(Elf64_Chdr) - sizeof type);
  if (!cursor.ok()) return cut();
  const std::string_view stream = cursor.read_bytes(cursor.remaining());
  switch (type) {
    case kCompressedByZlib:
      return inflate_zlib(stream, max_bytes);
    case kCompressedByZstd:
      return inflate_zstd(stream, max_bytes);
    default:
      return fail(ErrorCode::kUnsupported, "a section compressed in an unknown way");
  }
}

// The format before SHF_COMPRESSED: "ZLIB", the size in big endian, and the stream.
Result<std::string> CodeFile::read_zdebug(const Elf64_Shdr& section, std::size_t max_bytes) const {
  const Result<std::string> packed = read_plain(section, kMaxPackedBytes);
  if (!packed) return packed.error();
  Cursor cursor(*packed);
  const bool is_zlib = cursor.read_bytes(4) == "ZLIB";
  cursor.read<std::uint64_t>();
  if (!is_zlib || !cursor.ok()) return cut();
  return inflate_zlib(cursor.read_bytes(cursor.remaining()), max_bytes);
}

}  // namespace profd
