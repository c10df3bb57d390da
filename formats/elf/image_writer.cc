#include "formats/elf/image_writer.h"

#include <algorithm>
#include <cstring>

#include "formats/base/utf8_text.h"

namespace profd {
namespace {

// Perl's pprof asks addr2line for the address of this symbol between any two others, and recognizes
// the answer by the name. The symbol must lie in a section, so the last code section is one byte
// longer than its code.
constexpr std::string_view kEndName = "_fini";
constexpr std::uint64_t kEndBytes = 1;

template <class T>
void append(std::string& file, const T& value) {
  file.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void align(std::string& file, std::size_t to) {
  file.resize((file.size() + to - 1) / to * to, '\0');
}

std::uint64_t next_start(const std::vector<ElfSymbol>& functions, std::size_t i,
                         std::uint64_t end) {
  return i + 1 < functions.size() ? std::min(functions[i + 1].address, end) : end;
}

std::size_t last_of(const std::vector<ElfCodeSection>& code) {
  return static_cast<std::size_t>(std::ranges::max_element(code, {}, &ElfCodeSection::end) -
                                  code.begin());
}

}  // namespace

std::uint32_t ElfStrings::add(std::string_view text) {
  const auto offset = static_cast<std::uint32_t>(bytes_.size());
  const auto [known, added] = offsets_.try_emplace(
      printable_utf8(text.substr(0, text.find('\0')), kMaxPrintableBytes), offset);
  if (added) bytes_.append(known->first).push_back('\0');
  return known->second;
}

ElfImageWriter::ElfImageWriter(std::uint16_t type, std::uint16_t machine, std::uint64_t entry,
                               std::vector<ElfCodeSection> code)
    : type_(type), machine_(machine), entry_(entry), code_(std::move(code)) {
  sections_.emplace_back();
  const std::size_t last = last_of(code_);
  for (std::size_t i = 0; i < code_.size(); ++i) add_code_section(i, i == last ? kEndBytes : 0);
  append(symbols_, Elf64_Sym{});
}

void ElfImageWriter::add_code_section(std::size_t i, std::uint64_t end_bytes) {
  Elf64_Shdr text{};
  text.sh_name = names_.add(i == 0 ? ".text" : ".text." + std::to_string(i));
  text.sh_type = code_[i].code.empty() ? SHT_NOBITS : SHT_PROGBITS;
  text.sh_flags = SHF_ALLOC | SHF_EXECINSTR;
  text.sh_addr = code_[i].address;
  text.sh_offset = code_[i].file_offset;
  text.sh_size = code_[i].bytes + end_bytes;
  text.sh_addralign = 1;
  sections_.push_back(text);
}

void ElfImageWriter::set_segments(const std::vector<ElfSegment>& segments) {
  for (const ElfSegment& s : segments) {
    append(segments_, Elf64_Phdr{PT_LOAD, s.flags, s.offset, s.vaddr, s.vaddr, s.file_bytes,
                                 s.memory_bytes, s.align});
  }
}

void ElfImageWriter::set_build_id(const std::string& id) {
  if (id.empty()) return;
  append(note_, Elf64_Nhdr{4, static_cast<Elf64_Word>(id.size()), NT_GNU_BUILD_ID});
  note_.append("GNU\0", 4).append(id);
  note_.resize((note_.size() + 3) / 4 * 4, '\0');
}

void ElfImageWriter::set_gap_name(const std::string& file_name) {
  if (!file_name.empty()) gap_name_ = "[" + file_name + "]";
}

void ElfImageWriter::add_debug_section(std::string_view name, std::string bytes) {
  debug_.push_back({std::string(name), std::move(bytes)});
}

void ElfImageWriter::add_first_gaps(const std::vector<ElfSymbol>& functions) {
  for (std::size_t i = 0; i < code_.size(); ++i) {
    const auto first =
        std::ranges::lower_bound(functions, code_[i].address, {}, &ElfSymbol::address);
    const std::uint64_t end =
        first == functions.end() ? code_[i].end() : std::min(first->address, code_[i].end());
    if (end > code_[i].address) add_symbol(gap_name(), code_[i].address, end - code_[i].address, i);
  }
}

void ElfImageWriter::add_functions(const std::vector<ElfSymbol>& functions) {
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const auto code = std::ranges::find_if(
        code_, [&](const ElfCodeSection& section) { return section.holds(functions[i].address); });
    if (code == code_.end()) continue;
    const std::uint64_t next = next_start(functions, i, code->end());
    add_function(functions[i], next, static_cast<std::size_t>(code - code_.begin()));
  }
  add_end();
}

void ElfImageWriter::add_function(const ElfSymbol& function, std::uint64_t next,
                                  std::size_t section) {
  const std::uint64_t room = next - function.address;
  const std::uint64_t bytes = function.bytes == 0 ? room : std::min(function.bytes, room);
  add_symbol(strings_.add(function.name), function.address, bytes, section);
  if (bytes < room) add_symbol(gap_name(), function.address + bytes, room - bytes, section);
}

void ElfImageWriter::add_end() {
  if (code_.empty()) return;
  const std::size_t last = last_of(code_);
  add_symbol(strings_.add(kEndName), code_[last].end(), kEndBytes, last);
}

std::uint32_t ElfImageWriter::gap_name() {
  if (gap_name_offset_ == 0) gap_name_offset_ = strings_.add(gap_name_);
  return gap_name_offset_;
}

void ElfImageWriter::add_symbol(std::uint32_t name, std::uint64_t address, std::uint64_t bytes,
                                std::size_t section) {
  Elf64_Sym symbol{};
  symbol.st_name = name;
  symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  symbol.st_shndx = static_cast<Elf64_Section>(section + 1);
  symbol.st_value = address;
  symbol.st_size = bytes;
  append(symbols_, symbol);
}

// An estimate; 64 KiB are more than alignment and headers need.
std::size_t ElfImageWriter::encoded_bytes() const {
  std::size_t bytes = symbols_.size() + strings_.bytes().size() + names_.bytes().size() + 65536 +
                      sections_.size() * sizeof(Elf64_Shdr);
  for (const ElfCodeSection& section : code_) bytes += section.code.empty() ? 0 : section.bytes;
  for (const DebugSection& debug : debug_) bytes += debug.bytes.size();
  return bytes;
}

std::string ElfImageWriter::encode() {
  std::string file;
  file.reserve(encoded_bytes());
  file.resize(sizeof(Elf64_Ehdr));
  const std::uint64_t program_headers = file.size();
  file.append(segments_);
  append_code(file);
  if (!note_.empty()) append_section(file, ".note.gnu.build-id", SHT_NOTE, 4, note_);
  for (const DebugSection& debug : debug_) {
    append_section(file, debug.name, SHT_PROGBITS, 1, debug.bytes);
  }
  append_section(file, ".symtab", SHT_SYMTAB, 8, symbols_);
  sections_.back().sh_link = static_cast<Elf64_Word>(sections_.size());  // .strtab comes next
  sections_.back().sh_info = 1;  // the index of the first symbol that is not local
  sections_.back().sh_entsize = sizeof(Elf64_Sym);
  append_section(file, ".strtab", SHT_STRTAB, 1, strings_.bytes());
  names_.add(".shstrtab");  // before the bytes of the table are used
  append_section(file, ".shstrtab", SHT_STRTAB, 1, names_.bytes());
  align(file, 8);
  const Elf64_Ehdr header = file_header(program_headers, file.size());
  for (const Elf64_Shdr& section : sections_) append(file, section);
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

void ElfImageWriter::append_code(std::string& file) {
  const bool has_code = std::ranges::any_of(
      code_, [](const ElfCodeSection& section) { return !section.code.empty(); });
  if (!has_code) return;
  align(file, kElfTextOffset);
  for (std::size_t i = 0; i < code_.size(); ++i) {
    if (code_[i].code.empty()) continue;
    Elf64_Shdr& header = sections_[i + 1];
    header.sh_offset = file.size();
    for (const ElfCode& code : code_[i].code) {
      file.resize(header.sh_offset + (code.address - header.sh_addr), '\0');
      file.append(code.bytes);
    }
    file.resize(header.sh_offset + header.sh_size, '\0');
  }
}

void ElfImageWriter::append_section(std::string& file, std::string_view name, Elf64_Word type,
                                    Elf64_Xword alignment, std::string_view bytes) {
  align(file, alignment);
  Elf64_Shdr section{};
  section.sh_name = names_.add(name);
  section.sh_type = type;
  section.sh_offset = file.size();
  section.sh_size = bytes.size();
  section.sh_addralign = alignment;
  file.append(bytes);
  sections_.push_back(section);
}

Elf64_Ehdr ElfImageWriter::file_header(std::uint64_t program_headers,
                                       std::uint64_t section_headers) const {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = type_;
  header.e_machine = machine_;
  header.e_version = EV_CURRENT;
  header.e_entry = entry_;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = static_cast<Elf64_Half>(segments_.size() / sizeof(Elf64_Phdr));
  header.e_phoff = header.e_phnum == 0 ? 0 : program_headers;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<Elf64_Half>(sections_.size());
  header.e_shoff = section_headers;
  header.e_shstrndx = static_cast<Elf64_Half>(sections_.size() - 1);
  return header;
}

}  // namespace profd
