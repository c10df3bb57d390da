// The locations of one file in a profile with names, by the bytes that samples hit. Used on a
// worker.

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <boost/unordered/unordered_flat_map.hpp>

#include "daemon/names/file_namer.h"
#include "formats/elf/elf_file.h"
#include "formats/interpreters/runtime.h"
#include "formats/profile/pprof_profile.h"
#include "formats/symbols/code_names.h"

namespace profd {

// A location of the profile, and where its name comes from.
struct NamedLocation {
  std::uint32_t index = 0;
  NameSource source = NameSource::kGap;
};

// Adds a mapping whose name is not the path of a file, or one of which no addresses are known.
std::uint32_t add_named_mapping(PprofProfile& profile, PprofMapping mapping,
                                const std::string& file, const std::string& build_id = {});

class FileLocations {
 public:
  FileLocations() = default;
  // `runtime` is the interpreter in the file: its loop has a name also where no symbol has it.
  // Null: none. It must outlive *this.
  FileLocations(NamedFile named, const std::string& path, PprofProfile& profile,
                const profd_runtime* runtime = nullptr);

  // `profile` is that of the constructor.
  [[nodiscard]] NamedLocation at(std::uint64_t file_offset, PprofProfile& profile);

 private:
  [[nodiscard]] NamedLocation add(std::uint64_t file_offset, PprofProfile& profile);
  [[nodiscard]] NamedLocation add_unnamed(std::uint64_t file_offset, const PprofLocation& location,
                                          NameSource source, PprofProfile& profile) const;
  [[nodiscard]] std::uint32_t function_of(std::uint32_t index, PprofProfile& profile);

  NamedFile named_;
  const profd_runtime* runtime_ = nullptr;
  std::uint32_t mapping_ = 0;
  std::map<std::uint32_t, std::uint32_t> functions_;  // of the profile, by those of the NameTable
  boost::unordered_flat_map<std::uint64_t, NamedLocation> locations_;  // by file offset
};

}  // namespace profd
