#include "formats/elf/code_file.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace profd {
namespace {

constexpr std::uint64_t kMaxOffset = std::uint64_t{4} << 30;
constexpr std::uint64_t kMaxNamesBytes = std::uint64_t{1} << 20;
constexpr std::size_t kMaxSectionNameBytes = 64;  // of the names that profd looks for

CodeSegment segment_from(const Elf64_Phdr& header) {
  CodeSegment segment{header.p_vaddr, header.p_offset, std::min(header.p_filesz, header.p_memsz)};
  if (segment.offset >= kMaxOffset) segment.bytes = 0;
  segment.bytes = std::min(segment.bytes, kMaxOffset - std::min(segment.offset, kMaxOffset));
  return segment;
}

// Removes the part of the segment below `offset`.
void cut_front(CodeSegment& segment, std::uint64_t offset) {
  if (offset <= segment.offset) return;
  const std::uint64_t cut = std::min(offset - segment.offset, segment.bytes);
  segment.vaddr += cut;
  segment.offset += cut;
  segment.bytes -= cut;
}

std::string read_names(int fd, const elf::Headers& headers) {
  if (headers.file.e_shstrndx >= headers.sections.size()) return {};
  const Elf64_Shdr& names = headers.sections[headers.file.e_shstrndx];
  std::string bytes(std::min(names.sh_size, kMaxNamesBytes), '\0');
  if (!elf::read_at(fd, names.sh_offset, bytes.data(), bytes.size())) return {};
  return bytes;
}

}  // namespace

CodeSegments::CodeSegments(std::span<const Elf64_Phdr> program_headers) {
  for (const Elf64_Phdr& header : program_headers) {
    const bool is_code = header.p_type == PT_LOAD && (header.p_flags & PF_X) != 0;
    if (is_code) segments_.push_back(segment_from(header));
  }
  std::ranges::stable_sort(segments_, {}, &CodeSegment::offset);
  std::uint64_t taken = 0;
  for (CodeSegment& segment : segments_) {
    cut_front(segment, taken);
    taken = std::max(taken, segment.offset + segment.bytes);
  }
  std::erase_if(segments_, [](const CodeSegment& segment) { return segment.bytes == 0; });
}

const CodeSegment* CodeSegments::segment_of(std::uint64_t vaddr) const {
  const auto holds = [&](const CodeSegment& segment) {
    return vaddr >= segment.vaddr && vaddr - segment.vaddr < segment.bytes;
  };
  const auto found = std::ranges::find_if(segments_, holds);
  return found == segments_.end() ? nullptr : &*found;
}

std::optional<std::uint64_t> CodeSegments::offset_of(std::uint64_t vaddr) const {
  const CodeSegment* segment = segment_of(vaddr);
  if (segment == nullptr) return std::nullopt;
  return segment->offset + (vaddr - segment->vaddr);
}

Result<CodeFile> CodeFile::open(int fd) {
  Result<elf::Headers> headers = elf::read_headers(fd);
  if (!headers) return headers.error();
  if (headers->file.e_machine != EM_X86_64) {
    return fail(ErrorCode::kUnsupported, "an ELF file of another machine than x86-64");
  }
  CodeFile file;
  file.fd_ = fd;
  file.headers_ = std::move(*headers);
  file.section_names_ = read_names(fd, file.headers_);
  file.code_ = CodeSegments(file.headers_.segments);
  return file;
}

std::string_view CodeFile::name_of(const Elf64_Shdr& section) const {
  if (section.sh_name >= section_names_.size()) return {};
  const std::string_view rest =
      std::string_view(section_names_).substr(section.sh_name, kMaxSectionNameBytes);
  return rest.substr(0, rest.find('\0'));
}

const Elf64_Shdr* CodeFile::find_section(std::string_view name) const {
  const auto found = std::ranges::find_if(headers_.sections, [&](const Elf64_Shdr& section) {
    return section.sh_type != SHT_NOBITS && section.sh_size > 0 && name_of(section) == name;
  });
  return found == headers_.sections.end() ? nullptr : &*found;
}

std::vector<Elf64_Shdr> CodeFile::code_sections(std::string_view name_prefix) const {
  std::vector<Elf64_Shdr> found;
  std::ranges::copy_if(
      headers_.sections, std::back_inserter(found), [&](const Elf64_Shdr& section) {
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

std::size_t CodeFile::read_loaded(std::uint64_t vaddr, void* to, std::size_t bytes) const {
  const auto holds = [vaddr](const Elf64_Phdr& header) {
    return header.p_type == PT_LOAD && vaddr >= header.p_vaddr &&
           vaddr - header.p_vaddr < header.p_filesz && header.p_offset < kMaxOffset;
  };
  const auto segment = std::ranges::find_if(headers_.segments, holds);
  if (segment == headers_.segments.end()) return 0;
  const std::uint64_t skipped = vaddr - segment->p_vaddr;
  const std::uint64_t there = std::min<std::uint64_t>(bytes, segment->p_filesz - skipped);
  return elf::read_up_to(fd_, segment->p_offset + skipped, to, there);
}

}  // namespace profd
