// The code of an x86-64 ELF file: its executable segments, and its sections by name.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"
#include "formats/elf/elf_tables.h"

namespace profd {

struct CodeSegment {
  std::uint64_t vaddr = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // in the file
};

// The executable PT_LOAD segments of an ELF file, by file offset. Bytes of the file that are in two
// segments count for the first.
class CodeSegments {
 public:
  CodeSegments() = default;
  explicit CodeSegments(std::span<const Elf64_Phdr> program_headers);

  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::uint64_t vaddr) const;
  [[nodiscard]] const CodeSegment* segment_of(std::uint64_t vaddr) const;
  [[nodiscard]] std::span<const CodeSegment> all() const { return segments_; }

 private:
  std::vector<CodeSegment> segments_;
};

// Reads the headers once.
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
  // Reads what a process has at this virtual address before anything is relocated. Returns the
  // bytes that were read: fewer at the end of what the file has of the segment.
  [[nodiscard]] std::size_t read_loaded(std::uint64_t vaddr, void* to, std::size_t bytes) const;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const Elf64_Ehdr& header() const { return headers_.file; }
  [[nodiscard]] const std::vector<Elf64_Shdr>& sections() const { return headers_.sections; }
  [[nodiscard]] const std::vector<Elf64_Phdr>& program_headers() const { return headers_.segments; }
  [[nodiscard]] const CodeSegments& code() const { return code_; }

 private:
  [[nodiscard]] std::string_view name_of(const Elf64_Shdr& section) const;

  int fd_ = -1;
  elf::Headers headers_;
  std::string section_names_;
  CodeSegments code_;
};

}  // namespace profd
