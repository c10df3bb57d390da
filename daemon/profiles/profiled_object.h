// What the profiles of a session or window call the objects behind their frames, and what of each
// was hit.
//
// How objects are named, and where their images lie, is decided by who makes them: object_images.h
// for a session, window_objects.h for the windows of continuous mode. Used on the worker.

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "daemon/samples/process_table.h"
#include "formats/elf/elf_file.h"

namespace profd {

// A file that pprof reads under `line_path`. With an image (formats/elf/image.h), what was hit is
// to be told by hit().
class ProfiledObject {
 public:
  struct Image {
    int fd = -1;  // of the original, borrowed; -1: it is out of reach by now
    ElfSummary elf;
    std::string path{};                       // of the original
    std::uint32_t owner = 0;                  // its uid
    std::set<std::uint64_t> hit_addresses{};  // virtual addresses
  };

  explicit ProfiledObject(std::string line_path, std::optional<Image> image = std::nullopt)
      : line_path_(std::move(line_path)), image_(std::move(image)) {}

  [[nodiscard]] const std::string& line_path() const { return line_path_; }
  [[nodiscard]] bool has_image() const { return image_.has_value(); }
  [[nodiscard]] const Image& image() const { return image_.value(); }

  // A code byte that a sample hit, as an offset into the file.
  void hit(std::uint64_t file_offset);

 private:
  std::string line_path_;
  std::optional<Image> image_;
};

class ProfiledObjects {
 public:
  ProfiledObjects() = default;
  ProfiledObjects(const ProfiledObjects&) = delete;
  ProfiledObjects& operator=(const ProfiledObjects&) = delete;
  virtual ~ProfiledObjects() = default;

  // What a profile calls the object of a mapping. Stays valid as long as *this.
  virtual ProfiledObject& find_or_add(const Mapping& mapping, bool main_executable) = 0;
};

// "[NAME]" of a path: what readers skip. Blanks and brackets inside would end or split the name.
[[nodiscard]] std::string bracketed_name(const std::string& path);

// What the image of a file is called: by its name and build id, else its key in the kernel; and by
// its segments, and its owner where that is not root, since anyone can claim another's build id.
// Files of one name so share an image.
[[nodiscard]] std::string image_name(const MappedFile& file, const ElfSummary& elf);

// The last part of a path, fit to be a file's name.
[[nodiscard]] std::string plain_name(const std::string& path);

// Whether a file still has the bytes that ran: none were written since the kernel side met it.
[[nodiscard]] bool still_has_its_bytes(const MappedFile& file);

}  // namespace profd
