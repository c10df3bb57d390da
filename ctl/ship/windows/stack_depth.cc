#include "ctl/ship/windows/stack_depth.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace profd {
namespace {

constexpr std::string_view kOuterFramesLeftOut = "[frames left out]";

// The places in the tables have 32 bits.
std::uint32_t place_of_next(std::size_t size) { return static_cast<std::uint32_t>(size); }

// A location of a function with this name. Returns its place.
std::uint32_t add_named_location(PprofTables& tables, std::string_view name) {
  const std::uint32_t text = place_of_next(tables.texts.size());
  const std::uint32_t function = place_of_next(tables.functions.size());
  const std::uint32_t line = place_of_next(tables.lines.size());
  const std::uint32_t location = place_of_next(tables.locations.size());
  tables.texts.push_back(name);
  tables.functions.push_back({.name = text});
  tables.lines.push_back({.function = function});
  tables.locations.push_back({.first_line = line, .line_count = 1});
  return location;
}

}  // namespace

void limit_depth(PprofTables& tables, std::size_t most) {
  const auto is_deep = [most](const PprofTables::Sample& sample) { return sample.depth > most; };
  if (std::ranges::none_of(tables.samples, is_deep)) return;
  const std::uint32_t left_out = add_named_location(tables, kOuterFramesLeftOut);
  for (PprofTables::Sample& sample : tables.samples) {
    if (!is_deep(sample)) continue;
    sample.depth = static_cast<std::uint32_t>(most);
    tables.frames[sample.first_frame + most - 1] = left_out;
  }
}

}  // namespace profd
