#include "tests/formats/elf/hostile_elf.h"

#include <cstring>

namespace profd::test {

HostileElf::HostileElf(std::string code) : names_(1, '\0') {
  sections_.resize(1);
  add({.name = ".code", .bytes = std::move(code), .flags = SHF_ALLOC | SHF_EXECINSTR});
}

std::uint64_t HostileElf::add(const HostileSection& section) {
  body_.resize((body_.size() + 15) / 16 * 16);
  Elf64_Shdr header{};
  header.sh_name = static_cast<Elf64_Word>(names_.size());
  header.sh_type = SHT_PROGBITS;
  header.sh_flags = section.flags;
  header.sh_offset = kCode + body_.size();
  header.sh_addr = header.sh_offset;
  header.sh_size = section.bytes.size();
  header.sh_entsize = section.entry_bytes;
  sections_.push_back(header);
  names_ += section.name + '\0';
  body_ += section.bytes;
  return header.sh_offset;
}

std::string HostileElf::bytes() const {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  header.e_shoff = kCode + body_.size() + names_.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<Elf64_Half>(sections_.size() + 1);
  header.e_shstrndx = static_cast<Elf64_Half>(sections_.size());
  Elf64_Phdr segment{};
  segment.p_type = PT_LOAD;
  segment.p_flags = PF_R | PF_X;
  segment.p_filesz = segment.p_memsz = kCode + body_.size();
  Elf64_Shdr names{};
  names.sh_type = SHT_STRTAB;
  names.sh_offset = kCode + body_.size();
  names.sh_size = names_.size();
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file.append(reinterpret_cast<const char*>(&segment), sizeof segment);
  file.resize(kCode);
  file += body_ + names_;
  for (const Elf64_Shdr& section : sections_) {
    file.append(reinterpret_cast<const char*>(&section), sizeof section);
  }
  return file.append(reinterpret_cast<const char*>(&names), sizeof names);
}

CfiBytes& CfiBytes::cie(const std::string& more, const std::string& augmentation) {
  CfiBytes body;
  body.u32(0xffffffff).u8(3).text(augmentation).u8(0).u8(1).u8(0x78).u8(16);
  body.text("\x0c\x07\x08\x90\x01").text(more);
  return u32(body.size()).text(body.str());
}

CfiBytes& CfiBytes::fde(std::uint32_t cie, std::uint64_t start, std::uint64_t count,
                        const std::string& instructions) {
  CfiBytes body;
  body.u32(cie).u64(start).u64(count).text(instructions);
  return u32(body.size()).text(body.str());
}

}  // namespace profd::test
