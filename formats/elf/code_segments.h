// The executable PT_LOAD segments of an ELF file, by file offset. Bytes of the file that are in two
// segments count for the first.

#pragma once

#include <elf.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace profd {

struct CodeSegment {
  std::uint64_t vaddr = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // in the file
};

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

}  // namespace profd
