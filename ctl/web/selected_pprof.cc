#include "ctl/web/selected_pprof.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "ctl/sources/pprof_samples.h"
#include "ctl/sources/target_labels.h"
#include "ctl/views/selected_stacks.h"
#include "ctl/web/view_fields.h"
#include "formats/base/errors.h"
#include "formats/profile/pprof_merge.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"

namespace profd {
namespace {

// The samples of a selection are those of the tables, in their order, and so are the locations. A
// line of a location is a frame; a location without lines has one frame.
class PprofSelector {
 public:
  PprofSelector(const Selection& selection, PprofTables& tables)
      : selection_(selection), tables_(tables), is_hidden_(tables.locations.size()) {}

  // `is_kept`: by label set.
  void select(const std::vector<bool>& is_kept) {
    for (std::uint32_t i = 0; i < tables_.locations.size(); ++i) hide_lines(i);
    const auto rows = selection_.samples().rows();
    SelectedStacks stacks(selection_);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (is_kept[rows[i].labels] && stacks.read(rows[i])) keep(i);
    }
    tables_.samples = std::move(samples_);
    tables_.frames = std::move(frames_);
    tables_.values = std::move(values_);
    tables_.longest = std::move(longest_);
  }

 private:
  void hide_lines(std::uint32_t location) {
    const auto frames = selection_.samples().frames_of_location(location);
    const auto is_shown = [this](std::uint32_t frame) {
      return !Selection::hides(selection_.marks(frame));
    };
    if (std::ranges::all_of(frames, is_shown)) return;
    is_hidden_[location] = std::ranges::none_of(frames, is_shown);
    if (is_hidden_[location]) return;
    PprofTables::Location& changed = tables_.locations[location];
    const std::size_t first = changed.first_line;
    changed.first_line = static_cast<std::uint32_t>(tables_.lines.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const PprofLine line = tables_.lines[first + i];
      if (is_shown(frames[i])) tables_.lines.push_back(line);
    }
    changed.line_count = static_cast<std::uint32_t>(tables_.lines.size()) - changed.first_line;
  }

  void keep(std::size_t number) {
    PprofTables::Sample sample = tables_.samples[number];
    const std::size_t first = frames_.size();
    std::ranges::copy_if(tables_.frames_of(sample), std::back_inserter(frames_),
                         [this](std::uint32_t location) { return !is_hidden_[location]; });
    sample.first_frame = static_cast<std::uint32_t>(first);
    sample.depth = static_cast<std::uint32_t>(frames_.size() - first);
    samples_.push_back(sample);
    const auto values = tables_.values_of(number);
    values_.insert(values_.end(), values.begin(), values.end());
    if (!tables_.longest.empty()) longest_.push_back(tables_.longest[number]);
  }

  const Selection& selection_;
  PprofTables& tables_;
  std::vector<bool> is_hidden_;  // by location
  std::vector<PprofTables::Sample> samples_;
  std::vector<std::uint32_t> frames_;
  std::vector<std::int64_t> values_;
  std::vector<std::int64_t> longest_;
};

}  // namespace

Result<std::string> selected_pprof(std::string_view file, const TargetRequest& target,
                                   const SelectionPatterns& patterns) {
  const auto protobuf = unpack_pprof(file);
  if (!protobuf) return error_of(protobuf.error());
  const auto samples = samples_of_pprof(*protobuf);
  if (!samples) return samples.error();
  auto tables = read_pprof_tables(*protobuf);
  if (!tables) return error_of(tables.error());
  if (samples->rows().size() != tables->samples.size() ||
      samples->location_count() != tables->locations.size()) {
    return malformed("could not filter the profile: its samples and tables differ");
  }
  std::vector<bool> is_kept(samples->labels().size(), true);
  if (!target.empty()) is_kept = labels_of_target(target, *samples);
  const bool has_target = std::ranges::any_of(
      samples->rows(), [&is_kept](const Samples::Row& row) { return is_kept[row.labels]; });
  if (!target.empty() && !has_target) return no_sample_of(target);
  const Selection selection(*samples, patterns);
  PprofSelector(selection, *tables).select(is_kept);
  if (tables->samples.empty()) return nothing_is_left();
  return encode_pprof_gzip(profile_of(*tables));
}

}  // namespace profd
