// A file behind the frames of a session's profiles: its name in mapping lines, and the addresses
// that were hit in it. object_images.h has those of a session. Used on the worker.

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectors/files/mapped_file.h"
#include "formats/elf/elf_file.h"
#include "formats/interpreters/runtime.h"

namespace profd {

// The paths of a result's images begin with this in mapping lines.
inline constexpr std::string_view kBuildPrefix = "$build/";

// A file that pprof reads at `line_path`. For a file with an image (formats/elf/image.h), hit()
// collects the addresses whose functions the image needs.
class ProfiledObject {
 public:
  struct Image {
    int fd = -1;  // of the original, borrowed; -1: it can't be read any more
    ElfSummary elf;
    std::string path{};                       // of the original
    std::uint32_t owner = 0;                  // its uid
    std::string identity{};                   // as file_identity() has it; empty: the vDSO
    const profd_runtime* runtime = nullptr;   // the interpreter in it; null: none
    std::set<std::uint64_t> hit_addresses{};  // virtual addresses
  };

  explicit ProfiledObject(std::string line_path, std::optional<Image> image = std::nullopt)
      : line_path_(std::move(line_path)), image_(std::move(image)) {}

  [[nodiscard]] const std::string& line_path() const { return line_path_; }
  [[nodiscard]] bool has_image() const { return image_.has_value(); }
  [[nodiscard]] const Image& image() const { return image_.value(); }

  // Adds a code byte that a sample hit, as an offset into the file.
  void hit(std::uint64_t file_offset);

 private:
  std::string line_path_;
  std::optional<Image> image_;
};

// "$build/objects/NAME.so"
[[nodiscard]] std::string line_path_of_image(const std::string& name);

// The path in the result of an image with this line path.
[[nodiscard]] std::string path_in_result(const std::string& line_path);

// "[NAME]" for a path, which readers skip. NAME has no blanks or brackets, which would end it.
[[nodiscard]] std::string bracketed_name(const std::string& path);

// The last component of a path, made safe as a file name.
[[nodiscard]] std::string plain_name(const std::string& path);

}  // namespace profd
