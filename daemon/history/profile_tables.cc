#include "daemon/history/profile_tables.h"

#include <utility>

#include "formats/profile/block_names.h"
#include "formats/profile/pprof_merge.h"

namespace profd {
namespace {

std::uint32_t index_of(std::size_t size) { return static_cast<std::uint32_t>(size); }

}  // namespace

TablesOfProfile::TablesOfProfile(const PprofProfile& profile) : profile_(profile) {
  for (std::uint32_t i = 0; i < profile.text_count(); ++i) to_.texts.push_back(profile.text(i));
  to_.functions.assign(profile.functions().begin(), profile.functions().end());
  to_.mappings.assign(profile.mappings().begin(), profile.mappings().end());
  for (const PprofLocation& location : profile.locations()) add(location);
  for (const PprofValueType& type : profile.sample_types()) {
    to_.sample_types.push_back({text(type.type), text(type.unit)});
  }
  to_.period_type = {text(profile.period_type.type), text(profile.period_type.unit)};
  if (!profile.has_longest()) return;
  to_.longest_label.key = text(kLongestLabel);
  to_.longest_label.unit = text(kLongestUnit);
}

std::uint32_t TablesOfProfile::add_substitute(std::string_view name) {
  const std::uint32_t function = text(name);
  to_.mappings.push_back({.file = function});
  to_.functions.push_back({.name = function});
  to_.lines.push_back({.function = index_of(to_.functions.size()) - 1});
  to_.locations.push_back({.mapping = index_of(to_.mappings.size()) - 1,
                           .first_line = index_of(to_.lines.size()) - 1,
                           .line_count = 1});
  return index_of(to_.locations.size()) - 1;
}

void TablesOfProfile::drop_system_names() {
  for (PprofFunction& function : to_.functions) function.system_name = function.name;
}

void TablesOfProfile::add(std::size_t place, std::span<const std::uint32_t> frames) {
  add(place, frames, profile_.samples()[place].labels);
}

void TablesOfProfile::add(std::size_t place, std::span<const std::uint32_t> frames,
                          std::uint32_t label_set) {
  const auto labels = profile_.labels(label_set);
  to_.samples.push_back({.first_frame = index_of(to_.frames.size()),
                         .depth = index_of(frames.size()),
                         .first_label = index_of(to_.labels.size()),
                         .label_count = index_of(labels.size())});
  to_.frames.insert(to_.frames.end(), frames.begin(), frames.end());
  to_.labels.insert(to_.labels.end(), labels.begin(), labels.end());
  const auto values = profile_.values(place);
  to_.values.insert(to_.values.end(), values.begin(), values.end());
  if (profile_.has_longest()) to_.longest.push_back(profile_.longest(place));
}

bool TablesOfProfile::replace(PprofProfile& profile) const {
  PprofMerge merge;
  if (!merge.add(to_)) return false;  // an empty merge takes any profile
  PprofProfile result = std::move(merge).take();
  result.default_sample_type = profile.default_sample_type;
  result.period = profile.period;
  result.time_ns = profile.time_ns;
  result.duration_ns = profile.duration_ns;
  result.comments = profile.comments;
  profile = std::move(result);
  return true;
}

std::uint32_t TablesOfProfile::text(std::string_view text) {
  to_.texts.push_back(text);
  return index_of(to_.texts.size()) - 1;
}

void TablesOfProfile::add(const PprofLocation& from) {
  const auto lines = profile_.lines(from.lines);
  to_.locations.push_back({.address = from.address,
                           .mapping = from.mapping,
                           .first_line = index_of(to_.lines.size()),
                           .line_count = index_of(lines.size()),
                           .is_folded = from.is_folded});
  to_.lines.insert(to_.lines.end(), lines.begin(), lines.end());
}

}  // namespace profd
