#include "daemon/profiles/jit_image_part.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/core.h>

#include "daemon/profiles/jit_code.h"
#include "formats/base/address_range.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

JitImage image_of(const JitSamples& samples) {
  JitImage image;
  image.functions.reserve(samples.functions.size());
  for (const SampledJitCode& code : samples.functions) {
    image.functions.push_back({.address = code.address,
                               .bytes = code.bytes,
                               .name = jit_symbol(code.name, code.address),
                               .code = {},
                               .lines = {}});
  }
  return image;
}

JitImageLayout lay_out(const std::vector<JitImageFunction>& functions,
                       std::span<const ProfileMapping> others, const JitSamples& samples) {
  std::vector<AddressRange> occupied;
  for (const ProfileMapping& line : others) occupied.push_back({line.start, line.end});
  std::ranges::sort(occupied, {}, &AddressRange::start);
  std::vector<std::uint64_t> unnamed = samples.unnamed;
  std::ranges::sort(unnamed);
  return lay_out_jit_image(functions, occupied, unnamed);
}

// Appends to `left` the parts of a line that lie outside of `range`.
void cut_out(const ProfileMapping& line, const ImagePlacement& range,
             std::vector<ProfileMapping>& left) {
  const bool apart = line.end <= range.start || range.end <= line.start;
  if (apart) {
    left.push_back(line);
    return;
  }
  if (line.start < range.start) {
    left.push_back({line.start, range.start, line.file_offset, line.path});
  }
  if (range.end < line.end) {
    const bool has_offsets = !line.path.starts_with('[');
    const std::uint64_t skipped = has_offsets ? range.end - line.start : 0;
    left.push_back({range.end, line.end, line.file_offset + skipped, line.path});
  }
}

// The number of a file in an image, whose lines refer to files by number.
using FileNumber = std::function<std::uint32_t(std::string_view file)>;

void add_code(const JitCodeAnswer& answer, std::string_view name, const FileNumber& number_of,
              JitImageFunction& function) {
  if (answer.code.size() == function.bytes) function.code = answer.code;
  for (const JitLine& line : answer.lines) {
    const std::string_view file = file_of_jit_line(line, name);
    if (file.empty()) continue;
    function.lines.push_back({.code_offset = line.code_offset,
                              .line = line.line,
                              .column = line.discriminator,
                              .file = number_of(file)});
  }
}

char without_bracket(char c) {
  if (c == '(' || c == '<' || c == '[') return '{';
  if (c == ')' || c == '>' || c == ']') return '}';
  return c;
}

}  // namespace

JitImagePart::JitImagePart(const JitSamples& samples, std::span<const ProfileMapping> others)
    : samples_(&samples),
      image_(image_of(samples)),
      layout_(lay_out(image_.functions, others, samples)) {}

void JitImagePart::add_lines(const std::string& path, std::vector<ProfileMapping>& lines) const {
  for (const ImagePlacement& placement : layout_.placements) {
    std::vector<ProfileMapping> left;
    for (const ProfileMapping& line : lines) cut_out(line, placement, left);
    lines = std::move(left);
  }
  for (const ImagePlacement& placement : layout_.placements) {
    lines.push_back({.start = placement.start,
                     .end = placement.end,
                     .file_offset = placement.file_offset,
                     .path = path});
  }
}

std::string JitImagePart::encode(Parser& parser, std::uint64_t max_bytes) const {
  JitImage whole = image_;
  read_code(parser, whole);
  std::string bytes = encode_jit_image(whole, layout_).bytes;
  return bytes.size() <= max_bytes ? bytes : encode_jit_image(image_, layout_).bytes;
}

void JitImagePart::read_code(Parser& parser, JitImage& image) const {
  std::map<std::string, std::uint32_t, std::less<>> numbers;
  const FileNumber number_of = [&](std::string_view file) {
    if (const auto known = numbers.find(file); known != numbers.end()) return known->second;
    image.files.emplace_back(file);
    return numbers.emplace(file, static_cast<std::uint32_t>(numbers.size())).first->second;
  };
  read_jit_code(parser, *samples_, true, [&](std::size_t i, const JitCodeAnswer& answer) {
    add_code(answer, samples_->functions[i].name, number_of, image.functions[i]);
  });
}

std::string jit_symbol(std::string_view name, std::uint64_t address) {
  std::string symbol = printable_utf8(name, kMaxPrintableBytes);
  std::ranges::transform(symbol, symbol.begin(), without_bracket);
  if (!symbol.empty() && symbol != "_fini") return symbol;  // marks the end of an image
  return fmt::format("jit_{:x}", address);
}

}  // namespace profd
