// An x86-64 ELF file: its headers, read once, and its sections by name. `fd` is borrowed.

#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"
#include "formats/elf/code_segments.h"
#include "formats/unwind/cfi_entries.h"

namespace profd {

class CodeFile {
 public:
  [[nodiscard]] static Result<CodeFile> open(int fd);

  // The first section of that name that has bytes in the file, or null.
  [[nodiscard]] const Elf64_Shdr* find_section(std::string_view name) const;
  // Executable sections whose name starts with the prefix.
  [[nodiscard]] std::vector<Elf64_Shdr> code_sections(std::string_view name_prefix) const;
  // Empty if the bytes can't be read.
  [[nodiscard]] std::string read(std::uint64_t offset, std::uint64_t bytes) const;

  // At most `max_bytes`, decompressed. kNotFound: the file has no such section. Without section
  // headers, .eh_frame is found by PT_GNU_EH_FRAME.
  [[nodiscard]] Result<CfiSection> read_eh_frame(std::size_t max_bytes) const;
  [[nodiscard]] Result<CfiSection> read_debug_frame(std::size_t max_bytes) const;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const Elf64_Ehdr& header() const { return header_; }
  [[nodiscard]] const std::vector<Elf64_Phdr>& program_headers() const { return segments_; }
  [[nodiscard]] const CodeSegments& code() const { return code_; }

 private:
  [[nodiscard]] std::string_view name_of(const Elf64_Shdr& section) const;
  [[nodiscard]] Result<CfiSection> read_section_eh_frame(const Elf64_Shdr& section,
                                                         std::size_t max_bytes) const;
  [[nodiscard]] Result<CfiSection> read_segment_eh_frame(std::size_t max_bytes) const;
  [[nodiscard]] Result<std::string> read_plain(const Elf64_Shdr& section,
                                               std::size_t max_bytes) const;
  [[nodiscard]] Result<std::string> read_compressed(const Elf64_Shdr& section,
                                                    std::size_t max_bytes) const;
  [[nodiscard]] Result<std::string> read_zdebug(const Elf64_Shdr& section,
                                                std::size_t max_bytes) const;

  int fd_ = -1;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
  std::string section_names_;
  CodeSegments code_;
};

}  // namespace profd
