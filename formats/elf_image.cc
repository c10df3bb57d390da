#include "formats/elf_image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>

namespace profd {
namespace {

constexpr std::uint64_t kPage = 4096;

// Where .text claims to lie in the file of an absolute image. It has no bytes there (NOBITS).
constexpr std::uint64_t kTextOffset = 0x1000;

#if defined(__aarch64__)
constexpr std::uint16_t kHostMachine = EM_AARCH64;
#else
constexpr std::uint16_t kHostMachine = EM_X86_64;
#endif

// Perl's pprof asks addr2line for this symbol's address between any two others, and knows the
// answer by the name: so it has to lie in a section, which is why code sections are a byte longer
// than their code.
constexpr std::string_view kEndName = "_fini";
constexpr std::uint64_t kEndBytes = 1;

std::uint64_t page_of(std::uint64_t address) { return address / kPage * kPage; }

// The strings of a table. Equal ones share their bytes: a file whose functions all have one long
// name must not grow by being copied.
class StringTable {
 public:
  std::uint32_t add(std::string_view text) {
    const auto offset = static_cast<std::uint32_t>(bytes_.size());
    const auto [known, added] =
        offsets_.try_emplace(std::string(text.substr(0, text.find('\0'))), offset);
    if (added) bytes_.append(known->first).push_back('\0');
    return known->second;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_ = std::string(1, '\0');
  std::unordered_map<std::string, std::uint32_t> offsets_;
};

template <class T>
void append(std::string& file, const T& value) {
  file.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// A range of code that a section header describes.
struct CodeSection {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t file_offset = 0;

  [[nodiscard]] std::uint64_t limit() const { return address + bytes; }
  [[nodiscard]] bool holds(std::uint64_t at) const { return at >= address && at - address < bytes; }
};

std::uint64_t next_start(const std::vector<ElfSymbol>& functions, std::size_t i,
                         std::uint64_t limit) {
  return i + 1 < functions.size() ? std::min(functions[i + 1].address, limit) : limit;
}

// Lays out: ELF header, program headers, note, symbols, strings, section names, section headers.
class ImageWriter {
 public:
  ImageWriter(std::uint16_t type, std::uint16_t machine, std::uint64_t entry,
              std::vector<CodeSection> code)
      : type_(type), machine_(machine), entry_(entry), code_(std::move(code)) {
    add_section({});
    for (std::size_t i = 0; i < code_.size(); ++i) add_code_section(i);
    append(symbols_, Elf64_Sym{});
  }

  void set_segments(const std::vector<ElfSegment>& segments) {
    for (const ElfSegment& s : segments) {
      append(segments_, Elf64_Phdr{PT_LOAD, s.flags, s.offset, s.vaddr, s.vaddr, s.file_bytes,
                                   s.memory_bytes, s.align});
    }
  }

  void set_build_id(const std::string& id) {
    if (id.empty()) return;
    append(note_, Elf64_Nhdr{4, static_cast<Elf64_Word>(id.size()), NT_GNU_BUILD_ID});
    note_.append("GNU\0", 4).append(id);
    note_.resize((note_.size() + 3) / 4 * 4, '\0');
  }

  void set_gap_name(const std::string& file_name) {
    if (!file_name.empty()) gap_name_ = "[" + file_name + "]";
  }

  // What comes before the first function of a section, all of it where there is none.
  void add_first_gaps(const std::vector<ElfSymbol>& functions) {
    for (std::size_t i = 0; i < code_.size(); ++i) {
      const auto first =
          std::ranges::lower_bound(functions, code_[i].address, {}, &ElfSymbol::address);
      const std::uint64_t limit =
          first == functions.end() ? code_[i].limit() : std::min(first->address, code_[i].limit());
      if (limit > code_[i].address)
        add_symbol(gap_name_, code_[i].address, limit - code_[i].address, i);
    }
  }

  void add_functions(const std::vector<ElfSymbol>& functions) {
    for (std::size_t i = 0; i < functions.size(); ++i) {
      const auto code = std::ranges::find_if(
          code_, [&](const CodeSection& section) { return section.holds(functions[i].address); });
      if (code == code_.end()) continue;
      const std::uint64_t next = next_start(functions, i, code->limit());
      add_function(functions[i], next, static_cast<std::size_t>(code - code_.begin()));
    }
    add_end();
  }

  [[nodiscard]] std::string encode() {
    std::string file(sizeof(Elf64_Ehdr), '\0');
    const std::uint64_t program_headers = file.size();
    file.append(segments_);
    append_note(file);
    append_tables(file);
    align(file, 8);
    const Elf64_Ehdr header = file_header(program_headers, file.size());
    for (const Elf64_Shdr& section : sections_) append(file, section);
    std::memcpy(file.data(), &header, sizeof header);
    return file;
  }

 private:
  void add_section(const Elf64_Shdr& section) { sections_.push_back(section); }

  // And a mark where it ends, unless the next begins there.
  void add_function(const ElfSymbol& function, std::uint64_t next, std::size_t section) {
    const std::uint64_t room = next - function.address;
    const std::uint64_t bytes = function.bytes == 0 ? room : std::min(function.bytes, room);
    add_symbol(function.name, function.address, bytes, section);
    if (bytes < room) add_symbol(gap_name_, function.address + bytes, room - bytes, section);
  }

  // After all other symbols: nm, which Perl's pprof runs, sorts by address and gives the last one
  // no size.
  void add_end() {
    const auto last = std::ranges::max_element(code_, {}, &CodeSection::limit);
    if (last == code_.end()) return;
    add_symbol(kEndName, last->limit(), kEndBytes, static_cast<std::size_t>(last - code_.begin()));
  }

  // Perl's pprof wants the name ".text", and takes the first.
  void add_code_section(std::size_t i) {
    Elf64_Shdr text{};
    text.sh_name = names_.add(i == 0 ? ".text" : ".text." + std::to_string(i));
    text.sh_type = SHT_NOBITS;
    text.sh_flags = SHF_ALLOC | SHF_EXECINSTR;
    text.sh_addr = code_[i].address;
    text.sh_offset = code_[i].file_offset;
    text.sh_size = code_[i].bytes + kEndBytes;
    text.sh_addralign = 1;
    add_section(text);
  }

  void add_symbol(std::string_view name, std::uint64_t address, std::uint64_t bytes,
                  std::size_t section) {
    Elf64_Sym symbol{};
    symbol.st_name = strings_.add(name);
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_shndx = static_cast<Elf64_Section>(section + 1);
    symbol.st_value = address;
    symbol.st_size = bytes;
    append(symbols_, symbol);
  }

  static void align(std::string& file, std::size_t to) {
    file.resize((file.size() + to - 1) / to * to, '\0');
  }

  void append_section(std::string& file, Elf64_Shdr section, std::string_view bytes) {
    align(file, section.sh_addralign);
    section.sh_offset = file.size();
    section.sh_size = bytes.size();
    file.append(bytes);
    add_section(section);
  }

  void append_note(std::string& file) {
    if (note_.empty()) return;
    Elf64_Shdr note{};
    note.sh_name = names_.add(".note.gnu.build-id");
    note.sh_type = SHT_NOTE;
    note.sh_addralign = 4;
    append_section(file, note, note_);
  }

  void append_tables(std::string& file) {
    Elf64_Shdr symbols{};
    symbols.sh_name = names_.add(".symtab");
    symbols.sh_type = SHT_SYMTAB;
    symbols.sh_link = static_cast<Elf64_Word>(sections_.size() + 1);
    symbols.sh_info = 1;  // the first that is not local
    symbols.sh_addralign = 8;
    symbols.sh_entsize = sizeof(Elf64_Sym);
    append_section(file, symbols, symbols_);
    Elf64_Shdr strings{};
    strings.sh_name = names_.add(".strtab");
    strings.sh_type = SHT_STRTAB;
    strings.sh_addralign = 1;
    append_section(file, strings, strings_.bytes());
    Elf64_Shdr names = strings;
    names.sh_name = names_.add(".shstrtab");
    append_section(file, names, names_.bytes());
  }

  [[nodiscard]] Elf64_Ehdr file_header(std::uint64_t program_headers,
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

  std::uint16_t type_;
  std::uint16_t machine_;
  std::uint64_t entry_;
  std::vector<CodeSection> code_;
  std::string gap_name_ = "[unknown]";
  std::string segments_;
  std::string note_;
  std::string symbols_;
  StringTable strings_;
  StringTable names_;
  std::vector<Elf64_Shdr> sections_;
};

// The executable segments, the one that the first function lies in before the others.
std::vector<CodeSection> code_sections_of(const FileImage& image) {
  std::vector<CodeSection> code;
  for (const ElfSegment& s : image.original.segments) {
    if ((s.flags & PF_X) != 0) code.push_back({s.vaddr, s.memory_bytes, s.offset});
  }
  const auto hit = std::ranges::find_if(code, [&](const CodeSection& section) {
    return !image.functions.empty() && section.holds(image.functions[0].address);
  });
  if (hit != code.end()) std::rotate(code.begin(), hit, hit + 1);
  return code;
}

}  // namespace

bool is_gap_name(std::string_view name) { return name.starts_with('[') && name.ends_with(']'); }

ImagePlacement placement_of(const AbsoluteImage& image) {
  if (image.text_limit != 0) return {image.text_start, image.text_limit, kTextOffset};
  if (image.functions.empty()) return {};
  const std::uint64_t first = page_of(image.functions.front().address);
  const ElfSymbol& last = image.functions.back();
  const std::uint64_t limit =
      last.bytes == 0 ? page_of(last.address) + kPage : last.address + last.bytes;
  return {first - std::min(first, kPage), limit, kTextOffset};
}

std::string encode_absolute_image(const AbsoluteImage& image) {
  const auto [start, limit, file_offset] = placement_of(image);
  ImageWriter writer(ET_EXEC, kHostMachine, 0, {{start, limit - start, file_offset}});
  writer.set_build_id(image.build_id);
  writer.add_functions(image.functions);
  return writer.encode();
}

std::string encode_file_image(const FileImage& image) {
  ImageWriter writer(image.original.type, image.original.machine, image.original.entry,
                     code_sections_of(image));
  writer.set_segments(image.original.segments);
  writer.set_build_id(image.original.build_id);
  writer.set_gap_name(image.name);
  if (!image.name.empty()) writer.add_first_gaps(image.functions);
  writer.add_functions(image.functions);
  return writer.encode();
}

}  // namespace profd
