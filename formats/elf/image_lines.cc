#include "formats/elf/image_lines.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <string_view>

namespace profd {
namespace {

class ImageLinesWriter {
 public:
  explicit ImageLinesWriter(const std::string& name)
      : unknown_file_("[" + name + "]"), writer_(unknown_file_, "") {}

  void add_files(std::span<const ImageFrames> frames) {
    file_number({});
    for (const ImageFrames& at : frames) {
      for (const ImageFrame& frame : at.frames) file_number(frame.file);
    }
  }

  void add_function(const ElfSymbol& function, std::uint64_t bytes,
                    std::span<const ImageFrames> frames) {
    std::string_view file;
    if (!frames.empty()) file = frames.front().frames.back().file;
    writer_.begin_function(function.name, function.address, bytes, file_number(file), 0);
    for (const ImageFrames& at : frames) add_inlined(at);
    for (const ImageFrames& at : frames) {
      const ImageFrame& innermost = at.frames.front();
      writer_.add_line(at.address, file_number(innermost.file), innermost.line, 0);
      const std::uint64_t next = at.address + 1;
      if (next < function.address + bytes) {
        writer_.add_line(next, file_number(innermost.file), 0, 0);
      }
    }
    writer_.end_function();
  }

  DwarfSections finish(std::uint64_t start, std::uint64_t end) {
    return writer_.finish(start, end);
  }

 private:
  void add_inlined(const ImageFrames& at) {
    for (std::size_t i = at.frames.size() - 1; i-- > 0;) {
      const ImageFrame& caller = at.frames[i + 1];
      writer_.begin_inlined(at.frames[i].name, at.address, 1, file_number(caller.file),
                            caller.line);
    }
    for (std::size_t i = 1; i < at.frames.size(); ++i) writer_.end_inlined();
  }

  std::uint32_t file_number(std::string_view file) {
    const auto known = files_.find(file);
    if (known != files_.end()) return known->second;
    const std::uint32_t number = writer_.add_file(file.empty() ? unknown_file_ : file);
    files_.emplace(file, number);
    return number;
  }

  std::string unknown_file_;
  DwarfLinesWriter writer_;
  std::map<std::string, std::uint32_t, std::less<>> files_;
};

// A symbol without size extends to the last address that it names.
std::uint64_t bytes_of(const ElfSymbol& function, std::span<const ImageFrames> frames) {
  if (function.bytes != 0) return function.bytes;
  return frames.empty() ? 1 : frames.back().address + 1 - function.address;
}

}  // namespace

bool has_lines(std::span<const ImageFrames> frames) {
  return std::ranges::any_of(frames, [](const ImageFrames& at) {
    return at.frames.size() > 1 || at.frames.front().line != 0;
  });
}

const ElfSymbol* function_at(std::span<const ElfSymbol> functions, std::uint64_t address) {
  const auto after = std::ranges::upper_bound(functions, address, {}, &ElfSymbol::address);
  if (after == functions.begin()) return nullptr;
  const ElfSymbol& function = *std::prev(after);
  const bool is_in = function.bytes == 0 || address - function.address < function.bytes;
  return is_in ? &function : nullptr;
}

DwarfSections encode_image_lines(const std::string& name, std::span<const ElfSymbol> functions,
                                 std::span<const ImageFrames> frames) {
  ImageLinesWriter writer(name);
  writer.add_files(frames);
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const ElfSymbol& function = functions[i];
    const bool is_last = i + 1 == functions.size();
    const std::uint64_t next =
        is_last ? std::numeric_limits<std::uint64_t>::max() : functions[i + 1].address;
    const auto first_of_next = std::ranges::lower_bound(frames, next, {}, &ImageFrames::address);
    const auto own = frames.first(static_cast<std::size_t>(first_of_next - frames.begin()));
    const std::uint64_t bytes = std::min(bytes_of(function, own), next - function.address);
    writer.add_function(function, bytes, own);
    frames = frames.subspan(own.size());
    end = function.address + bytes;
  }
  return writer.finish(functions.empty() ? 0 : functions.front().address, end);
}

}  // namespace profd
