// A profile as it lies in a file: flat tables that refer to each other by index. Between bytes and
// PprofProfile: the reader and pprof_order.h make it, the writer and the merge use it.
//
// Borrows its texts, own_data and times. Every index lies inside its table, but texts are any
// bytes, and equal entries may stand there twice.

#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/profile/pprof_profile.h"

namespace profd {

struct PprofTables {
  struct ValueType {
    std::uint32_t type = 0;
    std::uint32_t unit = 0;
  };
  struct Location {
    std::uint64_t address = 0;
    std::uint32_t mapping = PprofLocation::kNoMapping;
    std::uint32_t first_line = 0;  // in `lines`
    std::uint32_t line_count = 0;
    bool is_folded = false;
  };
  // Its values are at the place of the sample times the number of types. Samples of a run with
  // equal labels usually have the same place of labels.
  struct Sample {
    std::uint32_t first_frame = 0;  // in `frames`
    std::uint32_t depth = 0;
    std::uint32_t first_label = 0;  // in `labels`
    std::uint32_t label_count = 0;
  };

  std::vector<std::string_view> texts;
  std::vector<ValueType> sample_types;
  std::uint32_t default_sample_type = 0;
  ValueType period_type;
  std::int64_t period = 0;
  std::int64_t time_ns = 0;
  std::int64_t duration_ns = 0;
  std::vector<std::uint32_t> comments;
  std::string_view own_data;
  std::string_view times;  // encoded, of `samples`; empty: none

  std::vector<PprofMapping> mappings;
  std::vector<PprofFunction> functions;
  std::vector<Location> locations;
  std::vector<PprofLine> lines;
  std::vector<Sample> samples;
  std::vector<std::uint32_t> frames;  // locations; the leaf of each sample first
  std::vector<PprofLabel> labels;
  std::vector<std::int64_t> values;
  // Of each sample the longest block, in nanoseconds, 0 where it is not known; empty: of none. The
  // label is not among `labels`.
  std::vector<std::int64_t> longest;
  PprofLabel longest_label;  // its key and its unit, where `longest` is not empty

  [[nodiscard]] std::span<const PprofLine> lines_of(const Location& location) const {
    return std::span(lines).subspan(location.first_line, location.line_count);
  }
  [[nodiscard]] std::span<const std::uint32_t> frames_of(const Sample& sample) const {
    return std::span(frames).subspan(sample.first_frame, sample.depth);
  }
  [[nodiscard]] std::span<const PprofLabel> labels_of(const Sample& sample) const {
    return std::span(labels).subspan(sample.first_label, sample.label_count);
  }
  // Cheap for samples that the reader or pprof_order.h has put one after the other.
  [[nodiscard]] bool have_equal_labels(const Sample& a, const Sample& b) const {
    if (a.first_label == b.first_label && a.label_count == b.label_count) return true;
    return std::ranges::equal(labels_of(a), labels_of(b));
  }
  [[nodiscard]] std::span<const std::int64_t> values_of(std::size_t sample) const {
    return std::span(values).subspan(sample * sample_types.size(), sample_types.size());
  }
  [[nodiscard]] std::int64_t longest_of(std::size_t sample) const {
    return sample < longest.size() ? longest[sample] : 0;
  }
};

}  // namespace profd
