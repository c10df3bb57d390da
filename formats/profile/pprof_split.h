// Splits a profile into one profile for each process, unit or container, by its labels.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/base/result.h"
#include "formats/profile/pprof_profile.h"
#include "formats/profile/pprof_tables.h"

namespace profd {

enum class PprofSplitKey : std::uint8_t { kProcess, kUnit, kContainer };

// "process", "unit" or "container"; kInvalidArgument for another name.
[[nodiscard]] Result<PprofSplitKey> parse_split_key(const std::string& name);

struct PprofPart {
  std::string name;  // "work.4321", "nginx.service", "no-unit"
  PprofProfile profile;
};

// Each sample is in one part. Sorted by name, without own data.
[[nodiscard]] std::vector<PprofPart> split_pprof(const PprofTables& tables, PprofSplitKey key);

}  // namespace profd
