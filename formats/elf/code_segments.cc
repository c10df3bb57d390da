#include "formats/elf/code_segments.h"

#include <algorithm>

namespace profd {
namespace {

constexpr std::uint64_t kMaxOffset = std::uint64_t{4} << 30;

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

}  // namespace profd
