// An x86-64 ELF file with its headers, which are read once, and its sections by name.

#pragma once

#include <elf.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"
#include "formats/elf/code_segments.h"

namespace profd {

class CodeFile {
 public:
  // `fd` is borrowed and read with pread() only. kUnsupported: of another machine.
  [[nodiscard]] static Result<CodeFile> open(int fd);

  // The first section of that name that has bytes in the file; nullptr: there is none.
  [[nodiscard]] const Elf64_Shdr* find_section(std::string_view name) const;
  // The executable sections whose names start with `name_prefix`.
  [[nodiscard]] std::vector<Elf64_Shdr> code_sections(std::string_view name_prefix) const;
  // Empty if the bytes cannot be read. The caller limits `bytes`.
  [[nodiscard]] std::string read(std::uint64_t offset, std::uint64_t bytes) const;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const Elf64_Ehdr& header() const { return header_; }
  [[nodiscard]] const std::vector<Elf64_Phdr>& program_headers() const { return segments_; }
  [[nodiscard]] const CodeSegments& code() const { return code_; }

 private:
  [[nodiscard]] std::string_view name_of(const Elf64_Shdr& section) const;

  int fd_ = -1;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
  std::string section_names_;
  CodeSegments code_;
};

}  // namespace profd
