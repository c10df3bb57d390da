// The gperftools profiles of a profile with names (formats/profile/pprof_profile.h), and the images
// that name their frames: the files of an export.
//
// A frame of a gperftools profile is an address, and what that address means is said by an image.
// So each location gets an address of its own in an address space that is made up for the whole
// result: the mappings one after the other, the functions of a mapping one after the other. A
// location's own address would not do: an hour file has none, and a mapping of another program can
// have any size.
//
// An address has one name: that of the outermost function, which is the symbol of the file. So
// inlined functions are not in these files. An image has the line in that function, too. Used on
// the worker.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/base/address_range.h"
#include "formats/jit/image.h"
#include "formats/profile/pprof_profile.h"

namespace profd {

class NamedDirectory {
 public:
  struct CountedStack {
    std::uint32_t stack = 0;    // of the profile
    std::uint64_t samples = 0;  // as session.json counts them (counted_samples.h)
  };
  // One gperftools profile: the samples with these labels.
  struct Process {
    std::uint32_t pid = 0;  // 0: several processes, or unknown
    std::string comm;
    std::vector<CountedStack> stacks{};  // each once
    std::int64_t last_values = 0;        // the sum of the last sample type, such as the CPU time
  };

  // `profile` must outlive *this. Its first sample type is the number of samples, or of blocks.
  explicit NamedDirectory(const PprofProfile& profile);

  // Sorted by pid and comm.
  [[nodiscard]] std::span<const Process> processes() const { return processes_; }

  // The file of the gperftools profile. `period` as in session.json.
  [[nodiscard]] std::string encode_profile(const Process& process, std::uint64_t period) const;

  [[nodiscard]] std::size_t images() const { return images_.size(); }
  // "objects/NAME.so", relative to the result.
  [[nodiscard]] std::string image_path(std::size_t image) const;
  // If the image is larger than `max_bytes`, all of its code has the name of the file.
  [[nodiscard]] std::string encode_image(std::size_t image, std::uint64_t max_bytes) const;

 private:
  // A mapping in the made-up address space. Its functions are contiguous.
  struct Image {
    std::uint32_t mapping = PprofLocation::kNoMapping;
    std::string stem{};       // of its file name
    std::string name{};       // of its mapping
    std::string line_path{};  // in the lists of mapped objects
    std::string line{};       // with the path; thousands of lists have it
    AddressRange code{};
    std::vector<std::uint32_t> locations{};  // of the profile, sorted by address
  };
  struct Placed {
    std::uint64_t address = 0;
    std::uint32_t image = 0;
  };

  void place_locations();
  void name_images();
  void find_processes();
  [[nodiscard]] std::pair<std::uint32_t, std::string> process_of(std::uint32_t labels) const;
  [[nodiscard]] const PprofLine& outermost(std::uint32_t location) const;
  [[nodiscard]] std::string mapping_name(std::uint32_t mapping) const;
  // The mapping's own name, "[jit]"; empty: there is none.
  [[nodiscard]] std::string_view object_of(const Image& image) const;
  [[nodiscard]] std::string symbol_of(const Image& image, const PprofFunction& function,
                                      std::uint64_t address) const;
  [[nodiscard]] JitImage image_of(const Image& image, JitImageLayout& layout) const;
  [[nodiscard]] std::string lines_of(const std::vector<char>& used, const std::string& comm) const;

  const PprofProfile& profile_;
  std::vector<Placed> places_;  // by location
  std::vector<Image> images_;   // by address
  std::vector<Process> processes_;
};

}  // namespace profd
