// The files of a profile that have frames and no line in any of them: those for which a debug file
// is worth a download.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"
#include "formats/profile/pprof_tables.h"

namespace profd {

struct LinelessFile {
  std::string build_id;  // lower-case hexadecimal digits, two for each byte
  std::string path;
  std::uint64_t samples = 0;  // the first value of each sample with such a frame
};

// 4 to 128 lower-case hexadecimal digits, an even number: safe as a file name.
[[nodiscard]] bool is_build_id(std::string_view text);

// Each build id once, the one with most samples first. Mappings without a build id of that form are
// left out.
[[nodiscard]] std::vector<LinelessFile> find_lineless_files(const PprofTables& profile);

// The same of a profile.proto, gzip or plain.
[[nodiscard]] Result<std::vector<LinelessFile>> find_lineless_files(std::string_view file);

}  // namespace profd
