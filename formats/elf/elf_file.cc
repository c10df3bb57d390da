#include "formats/elf/elf_file.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "formats/base/cursor.h"
#include "formats/elf/code_file.h"
#include "formats/elf/debug_link.h"
#include "formats/elf/elf_tables.h"

namespace profd {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kMaxNoteBytes = 65536;
constexpr std::size_t kMaxNotes = 32;
constexpr std::size_t kMaxBuildIdBytes = 64;

std::string build_id_in_notes(std::string_view notes, std::size_t alignment) {
  Cursor cursor(notes);
  while (cursor.ok() && cursor.remaining() > 0) {
    const auto name_bytes = cursor.read<std::uint32_t>();
    const auto value_bytes = cursor.read<std::uint32_t>();
    const auto type = cursor.read<std::uint32_t>();
    const std::string_view name = cursor.read_bytes(name_bytes);
    cursor.align(alignment);
    const std::string_view value = cursor.read_bytes(value_bytes);
    cursor.align(alignment);
    const bool build_id = type == NT_GNU_BUILD_ID && name == "GNU\0"sv;
    if (cursor.ok() && build_id && value.size() <= kMaxBuildIdBytes) return std::string(value);
  }
  return {};
}

struct Notes {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t alignment = 0;
};

std::vector<Notes> notes_of(const elf::Headers& headers) {
  std::vector<Notes> notes;
  for (const Elf64_Phdr& p : headers.segments) {
    if (p.p_type == PT_NOTE) notes.push_back({p.p_offset, p.p_filesz, p.p_align});
  }
  for (const Elf64_Shdr& s : headers.sections) {
    if (s.sh_type == SHT_NOTE) notes.push_back({s.sh_offset, s.sh_size, s.sh_addralign});
  }
  notes.resize(std::min(notes.size(), kMaxNotes));
  return notes;
}

std::string find_build_id(int fd, const elf::Headers& headers) {
  for (const Notes& notes : notes_of(headers)) {
    const auto bytes =
        elf::read_table<char>(fd, notes.offset, std::min(notes.bytes, kMaxNoteBytes));
    if (!bytes) continue;
    const std::size_t alignment = notes.alignment == 8 ? 8 : 4;
    std::string id = build_id_in_notes({bytes->data(), bytes->size()}, alignment);
    if (!id.empty()) return id;
  }
  return {};
}

std::string find_debug_link(int fd) {
  const Result<CodeFile> file = CodeFile::open(fd);
  if (!file) return {};
  auto link = read_debug_link(*file);
  return link ? std::move(link->name) : std::string();
}

}  // namespace

Result<ElfSummary> read_elf_summary(int fd) {
  const Result<elf::Headers> headers = elf::read_headers(fd);
  if (!headers) return headers.error();
  const Elf64_Ehdr& file = headers->file;
  if (file.e_type != ET_EXEC && file.e_type != ET_DYN) {
    return fail(ErrorCode::kUnsupported, "an ELF file that is neither a program nor a library");
  }
  ElfSummary summary{.type = file.e_type,
                     .machine = file.e_machine,
                     .entry = file.e_entry,
                     .segments = {},
                     .build_id = find_build_id(fd, *headers),
                     .debug_link = find_debug_link(fd)};
  for (const Elf64_Phdr& p : headers->segments) {
    if (p.p_type != PT_LOAD) continue;
    summary.segments.push_back(
        {p.p_offset, p.p_vaddr, p.p_filesz, p.p_memsz, p.p_align, p.p_flags});
  }
  return summary;
}

Result<std::uint64_t> vaddr_of_offset(const ElfSummary& elf, std::uint64_t offset) {
  const auto holds = [&](const ElfSegment& s) {
    return offset >= s.offset && offset - s.offset < s.file_bytes;
  };
  const auto segment = std::ranges::find_if(elf.segments, holds);
  if (segment == elf.segments.end())
    return fail(ErrorCode::kNotFound, "no segment of the file contains that offset");
  return segment->vaddr + (offset - segment->offset);
}

}  // namespace profd
