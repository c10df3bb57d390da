#include "formats/elf/code_file.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "formats/elf/elf_tables.h"

namespace profd {
namespace {

constexpr std::uint64_t kMaxNamesBytes = std::uint64_t{1} << 20;
constexpr std::size_t kMaxSectionNameBytes = 64;  // of the names that profd looks for

std::string read_names(int fd, const Elf64_Ehdr& header, const std::vector<Elf64_Shdr>& sections) {
  if (header.e_shstrndx >= sections.size()) return {};
  const Elf64_Shdr& names = sections[header.e_shstrndx];
  std::string bytes(std::min(names.sh_size, kMaxNamesBytes), '\0');
  if (!elf::read_at(fd, names.sh_offset, bytes.data(), bytes.size())) return {};
  return bytes;
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
      std::string_view(section_names_).substr(section.sh_name, kMaxSectionNameBytes);
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

}  // namespace profd
