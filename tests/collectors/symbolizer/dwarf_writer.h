// Writes ELF files whose DWARF is not what a compiler writes.

#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace profd::test {

// Little-endian numbers, one after the other.
class Bytes {
 public:
  template <class T>
  Bytes& add(T number) {
    text_.append(reinterpret_cast<const char*>(&number), sizeof number);
    return *this;
  }
  Bytes& u8(std::uint8_t number) { return add(number); }
  Bytes& u16(std::uint16_t number) { return add(number); }
  Bytes& u32(std::uint32_t number) { return add(number); }
  Bytes& u64(std::uint64_t number) { return add(number); }
  Bytes& string(std::string_view text) {
    text_.append(text).push_back('\0');
    return *this;
  }
  Bytes& raw(std::string_view bytes) {
    text_.append(bytes);
    return *this;
  }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(text_.size()); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct Section {
  std::string name;
  std::string bytes;
  std::uint64_t flags = 0;
};

// A shared library with these sections.
inline std::string elf_with(const std::vector<Section>& sections) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<Elf64_Half>(sections.size() + 2);
  header.e_shstrndx = static_cast<Elf64_Half>(sections.size() + 1);
  std::string names(1, '\0');
  std::string content;
  std::vector<Elf64_Shdr> headers(1);
  const auto add = [&](const std::string& name, std::string_view bytes, std::uint64_t flags) {
    Elf64_Shdr section{};
    section.sh_name = static_cast<Elf64_Word>(names.size());
    section.sh_type = SHT_PROGBITS;
    section.sh_flags = flags;
    section.sh_offset = sizeof header + content.size();
    section.sh_size = bytes.size();
    section.sh_addralign = 1;
    headers.push_back(section);
    content += bytes;
    names += name + '\0';
  };
  for (const Section& section : sections) add(section.name, section.bytes, section.flags);
  const std::string with_own = names + ".shstrtab" + '\0';
  add(".shstrtab", with_own, 0);
  headers.back().sh_type = SHT_STRTAB;
  header.e_shoff = sizeof header + content.size();
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file += content;
  file.append(reinterpret_cast<const char*>(headers.data()), headers.size() * sizeof headers[0]);
  return file;
}

inline constexpr std::uint64_t kCodeStart = 0x1000;
inline constexpr std::uint64_t kCodeBytes = 0x1000;

// The forms of the entries that the functions below write (DWARF 4, 7.5.3).
enum class Entry : std::uint8_t {
  kEnd,
  kUnit,
  kFunction,
  kBlock,
  kWithSibling,
  kInlined,
  kEmpty,
  kUnitInDirectory,  // its directory is in .debug_str
  kNamed,            // a function without code, whose name is in .debug_str
  kLinkageNamed,     // the same with a linkage name
};

inline std::string abbreviations() {
  Bytes table;
  const auto add = [&table](
                       Entry code, std::uint8_t tag, bool has_children,
                       std::initializer_list<std::pair<std::uint8_t, std::uint8_t>> attributes) {
    table.add(code).u8(tag).u8(has_children ? 1 : 0);
    for (const auto& [name, form] : attributes) table.u8(name).u8(form);
    table.u16(0);
  };
  constexpr std::uint8_t kAddr = 0x01;
  constexpr std::uint8_t kData8 = 0x07;
  constexpr std::uint8_t kString = 0x08;
  constexpr std::uint8_t kStrp = 0x0e;
  constexpr std::uint8_t kRef4 = 0x13;
  constexpr std::uint8_t kSectionOffset = 0x17;
  constexpr std::uint8_t kSibling = 0x01;
  constexpr std::uint8_t kName = 0x03;
  constexpr std::uint8_t kLines = 0x10;
  constexpr std::uint8_t kLow = 0x11;
  constexpr std::uint8_t kHigh = 0x12;
  constexpr std::uint8_t kDirectory = 0x1b;
  constexpr std::uint8_t kOrigin = 0x31;
  constexpr std::uint8_t kLinkageName = 0x6e;
  add(Entry::kUnit, 0x11, true, {{kLow, kAddr}, {kHigh, kData8}, {kLines, kSectionOffset}});
  add(Entry::kFunction, 0x2e, true, {{kName, kString}, {kLow, kAddr}, {kHigh, kData8}});
  add(Entry::kBlock, 0x0b, true, {{kLow, kAddr}, {kHigh, kData8}});
  add(Entry::kWithSibling, 0x2e, true, {{kSibling, kRef4}, {kName, kString}});
  add(Entry::kInlined, 0x1d, true, {{kOrigin, kRef4}, {kLow, kAddr}, {kHigh, kData8}});
  add(Entry::kEmpty, 0x24, false, {});
  add(Entry::kUnitInDirectory, 0x11, true,
      {{kLow, kAddr}, {kHigh, kData8}, {kLines, kSectionOffset}, {kDirectory, kStrp}});
  add(Entry::kNamed, 0x2e, false, {{kName, kStrp}});
  add(Entry::kLinkageNamed, 0x2e, false, {{kLinkageName, kStrp}});
  return table.u8(0).text();
}

inline constexpr std::uint32_t kUnitHeaderBytes = 11;

// A unit for [kCodeStart, kCodeStart + kCodeBytes) around the entries, which begin at the offset
// kFirstEntry of the unit.
inline constexpr std::uint32_t kFirstEntry = kUnitHeaderBytes + 1 + 8 + 8 + 4;
// The same in a unit with a directory, which is at the start of .debug_str.
inline constexpr std::uint32_t kFirstEntryInDirectory = kFirstEntry + 4;

inline std::string unit_of(std::string_view entries, Entry unit = Entry::kUnit) {
  Bytes content;
  content.u16(4).u32(0).u8(8);  // version, abbreviations, bytes of an address
  content.add(unit).u64(kCodeStart).u64(kCodeBytes).u32(0);
  if (unit == Entry::kUnitInDirectory) content.u32(0);
  content.raw(entries);
  return Bytes().u32(content.size()).raw(content.text()).text();
}

inline Bytes& add_range(Bytes& to) { return to.u64(kCodeStart).u64(kCodeBytes); }

inline Bytes line_numbers(std::uint8_t line_range = 14) {
  Bytes numbers;
  numbers.u8(1).u8(1).u8(1).u8(0xfb).u8(line_range).u8(10);
  return numbers.raw(std::string_view("\0\1\1\1\1\0\0\0\1", 9));  // operands of opcodes 1 to 9
}

// The line program of some files, all of one name (DWARF 4, 6.2.4).
inline std::string lines_of_program(std::string_view program, std::uint8_t line_range = 14,
                                    std::size_t files = 1) {
  Bytes tables = line_numbers(line_range);
  tables.u8(0);
  for (std::size_t i = 0; i < files; ++i) tables.string("file.cc").u8(0).u8(0).u8(0);
  tables.u8(0);
  Bytes content;
  content.u16(4).u32(tables.size()).raw(tables.text()).raw(program);
  return Bytes().u32(content.size()).raw(content.text()).text();
}

// The same in DWARF 5: a path is an inline text, and nothing else is known of a file. All but the
// first two have an empty one, which takes one byte.
inline std::string lines_of_program_5(std::string_view program, std::size_t files) {
  constexpr std::string_view kPathInline("\x01\x01\x08", 3);  // one format: path, DW_FORM_string
  Bytes tables = line_numbers();
  tables.raw(kPathInline).u8(1).string("directory").raw(kPathInline);
  std::size_t left = files;  // as ULEB128
  for (; left >= 0x80; left >>= 7) tables.u8(static_cast<std::uint8_t>(0x80 | (left & 0x7f)));
  tables.u8(static_cast<std::uint8_t>(left));
  tables.string("file.cc").string("file.cc").raw(std::string(files - 2, '\0'));
  Bytes content;
  content.u16(5).u8(8).u8(0).u32(tables.size()).raw(tables.text()).raw(program);
  return Bytes().u32(content.size()).raw(content.text()).text();
}

// Sets the address to kCodeStart.
inline std::string start_of_program() { return Bytes().u8(0).u8(9).u8(2).u64(kCodeStart).text(); }
// Ends the sequence at the end of the code.
inline std::string end_of_program() {
  return Bytes().u8(2).raw("\x80\x20").u8(0).u8(1).u8(1).text();
}

inline std::string dwarf_with(std::string_view entries, std::string_view lines) {
  return elf_with({{.name = ".debug_abbrev", .bytes = abbreviations()},
                   {.name = ".debug_info", .bytes = unit_of(entries)},
                   {.name = ".debug_line", .bytes = std::string(lines)}});
}

}  // namespace profd::test
