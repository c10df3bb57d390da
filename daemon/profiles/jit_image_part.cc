#include "daemon/profiles/jit_image_part.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "daemon/profiles/jit_code.h"
#include "formats/base/address_range.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

// Gives the files of an image their numbers, by which lines refer to them.
class ImageFiles {
 public:
  explicit ImageFiles(JitImage& image) : image_(image) {
    for (const std::string& file : image.files) (void)numbers_.emplace(file, next());
  }

  std::uint32_t number_of(std::string_view file) {
    if (const auto known = numbers_.find(file); known != numbers_.end()) return known->second;
    image_.files.emplace_back(file);
    return numbers_.emplace(file, next()).first->second;
  }

 private:
  [[nodiscard]] std::uint32_t next() const { return static_cast<std::uint32_t>(numbers_.size()); }

  JitImage& image_;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
};

void add_jit_code(const JitSamples& samples, JitImage& image) {
  image.functions.reserve(samples.functions.size());
  for (const SampledJitCode& code : samples.functions) {
    image.functions.push_back({.address = code.address,
                               .bytes = code.bytes,
                               .name = jit_symbol(code.name, code.address),
                               .code = {},
                               .lines = {}});
  }
}

void add_interpreted_code(const InterpretedFunctions& interpreted, JitImage& image) {
  ImageFiles files(image);
  image.functions.reserve(image.functions.size() + interpreted.all().size());
  for (const InterpretedFunctions::Function& function : interpreted.all()) {
    const std::string file = image_file(function.code.file);
    const std::uint32_t number = file.empty() ? 0 : files.number_of(file);
    image.functions.push_back(image_function(function, number));
  }
}

JitImage image_of(const JitSamples* samples, const InterpretedFunctions* interpreted) {
  JitImage image;
  if (samples != nullptr) add_jit_code(*samples, image);
  const bool has_jit_code = !image.functions.empty();
  if (interpreted == nullptr) return image;
  add_interpreted_code(*interpreted, image);
  if (has_jit_code) return image;
  image.name = interpreted->runtime().empty() ? "interpreted" : interpreted->runtime();
  return image;
}

JitImage without_lines(JitImage image) {
  for (JitImageFunction& function : image.functions) function.lines.clear();
  image.files.clear();
  return image;
}

// JIT code keeps its addresses where it can. Code objects lie all over the heap, and each gap would
// be a section or a mapping line more, so interpreted code is moved together.
std::vector<JitImageFunction> places_of(const std::vector<JitImageFunction>& functions,
                                        std::size_t jit_functions) {
  std::vector<JitImageFunction> places;
  places.reserve(functions.size());
  for (std::size_t i = 0; i < functions.size(); ++i) {
    places.push_back({.address = i < jit_functions ? functions[i].address : 0,
                      .bytes = functions[i].bytes,
                      .name = {},
                      .code = {},
                      .lines = {}});
  }
  return places;
}

JitImageLayout lay_out(const std::vector<JitImageFunction>& functions,
                       std::span<const ProfileMapping> others, const JitSamples* samples) {
  std::vector<AddressRange> occupied;
  for (const ProfileMapping& line : others) occupied.push_back({line.start, line.end});
  std::ranges::sort(occupied, {}, &AddressRange::start);
  std::vector<std::uint64_t> unnamed;
  if (samples != nullptr) unnamed = samples->unnamed;
  std::ranges::sort(unnamed);
  const std::size_t jit_functions = samples == nullptr ? 0 : samples->functions.size();
  return lay_out_jit_image(places_of(functions, jit_functions), occupied, unnamed);
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

void add_code(const JitCodeAnswer& answer, std::string_view name, ImageFiles& files,
              JitImageFunction& function) {
  if (answer.code.size() == function.bytes) function.code = answer.code;
  for (const JitLine& line : answer.lines) {
    const std::string_view file = file_of_jit_line(line, name);
    if (file.empty()) continue;
    function.lines.push_back({.code_offset = line.code_offset,
                              .line = line.line,
                              .column = line.discriminator,
                              .file = files.number_of(file)});
  }
}

char without_bracket(char c) {
  if (c == '(' || c == '<' || c == '[') return '{';
  if (c == ')' || c == '>' || c == ']') return '}';
  return c;
}

}  // namespace

JitImagePart::JitImagePart(const JitSamples* samples, const InterpretedFunctions* interpreted,
                           std::span<const ProfileMapping> others)
    : samples_(samples),
      image_(image_of(samples, interpreted)),
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
  if (bytes.size() <= max_bytes) return bytes;
  return encode_jit_image(without_lines(image_), layout_).bytes;
}

void JitImagePart::read_code(Parser& parser, JitImage& image) const {
  if (samples_ == nullptr) return;
  ImageFiles files(image);
  read_jit_code(parser, *samples_, true, [&](std::size_t i, const JitCodeAnswer& answer) {
    add_code(answer, samples_->functions[i].name, files, image.functions[i]);
  });
}

std::string jit_symbol(std::string_view name, std::uint64_t address) {
  std::string symbol = printable_utf8(name, kMaxPrintableBytes);
  std::ranges::transform(symbol, symbol.begin(), without_bracket);
  if (!symbol.empty() && symbol != "_fini") return symbol;  // marks the end of an image
  return fmt::format("jit_{:x}", address);
}

}  // namespace profd
