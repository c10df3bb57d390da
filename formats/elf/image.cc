#include "formats/elf/image.h"

#include <algorithm>
#include <utility>

#include "formats/base/address_range.h"
#include "formats/elf/image_lines.h"
#include "formats/elf/image_writer.h"

namespace profd {
namespace {

// The executable segments; the segment of the first function comes first.
std::vector<ElfCodeSection> code_sections_of(const FileImage& image,
                                             const std::vector<ElfSymbol>& functions) {
  std::vector<ElfCodeSection> code;
  for (const ElfSegment& s : image.original.segments) {
    if ((s.flags & PF_X) != 0) code.push_back({s.vaddr, s.memory_bytes, s.offset});
  }
  const auto hit = std::ranges::find_if(code, [&](const ElfCodeSection& section) {
    return !functions.empty() && section.holds(functions[0].address);
  });
  if (hit != code.end()) std::rotate(code.begin(), hit, hit + 1);
  return code;
}

// The functions of the image, and those of addresses between them that frames name.
std::vector<ElfSymbol> functions_with_frames(const FileImage& image) {
  std::vector<ElfSymbol> functions = image.functions;
  for (const ImageFrames& at : image.frames) {
    if (function_at(image.functions, at.address) == nullptr) {
      functions.push_back({at.address, 1, at.frames.back().name});
    }
  }
  std::ranges::stable_sort(functions, {}, &ElfSymbol::address);
  return functions;
}

}  // namespace

bool is_gap_name(std::string_view name) { return name.starts_with('[') && name.ends_with(']'); }

ImagePlacement placement_of(const AbsoluteImage& image) {
  if (image.text_end != 0) return {image.text_start, image.text_end, kElfTextOffset};
  if (image.functions.empty()) return {};
  const std::uint64_t first = page_of(image.functions.front().address);
  const ElfSymbol& last = image.functions.back();
  const std::uint64_t end =
      last.bytes == 0 ? page_of(last.address) + kPage : last.address + last.bytes;
  return {first - std::min(first, kPage), end, kElfTextOffset};
}

std::string encode_absolute_image(const AbsoluteImage& image) {
  const auto [start, end, file_offset] = placement_of(image);
  ElfImageWriter writer(ET_EXEC, kElfHostMachine, 0, {{start, end - start, file_offset}});
  writer.set_build_id(image.build_id);
  writer.add_functions(image.functions);
  return writer.encode();
}

std::string encode_file_image(const FileImage& image) {
  const std::vector<ElfSymbol> functions = functions_with_frames(image);
  ElfImageWriter writer(image.original.type, image.original.machine, image.original.entry,
                        code_sections_of(image, functions));
  writer.set_segments(image.original.segments);
  writer.set_build_id(image.original.build_id);
  writer.set_gap_name(image.name);
  if (!image.name.empty()) writer.add_first_gaps(functions);
  writer.add_functions(functions);
  if (has_lines(image.frames)) {
    DwarfSections lines = encode_image_lines(image.name, functions, image.frames);
    writer.add_debug_section(".debug_abbrev", std::move(lines.abbrev));
    writer.add_debug_section(".debug_info", std::move(lines.info));
    writer.add_debug_section(".debug_line", std::move(lines.line));
  }
  return writer.encode();
}

}  // namespace profd
