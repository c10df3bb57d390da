// A profile as profile.proto holds it (github.com/google/pprof, proto/profile.proto): samples of
// any number of processes, with labels, and with the functions, files and lines of each frame.
//
// The tables refer to each other by index, from 0 on, as the file does by id. The add functions
// return the index of an equal entry if there is one. pprof_writer.h encodes a profile,
// pprof_reader.h decodes it, and pprof_merge.h adds up several.
//
// Owns all its memory; no thread affinity. Invariants, which the add functions keep:
//
// - Each index lies inside its table; each sample has one value for each sample type.
// - Each text is valid UTF-8 without control characters, of at most kMaxTextBytes, and text 0 is
// "".
// - Each location has a line: readers leave out a location without one, or the whole sample.
// - No numeric label is 0 without a unit: readers take that for a label without value.
// - The label of the longest block (kLongestLabel) is not among the labels of a sample, but in
// longest(): samples that only differ in it are one.

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/seeded_hash.h"
#include "formats/profile/interned.h"
#include "formats/profile/sample_times.h"

namespace profd {

struct PprofFunction {
  std::uint32_t name = 0;         // as it is shown
  std::uint32_t system_name = 0;  // as it is in the file: mangled
  std::uint32_t file = 0;         // of the source
  std::int64_t start_line = 0;    // 0: unknown

  friend bool operator==(const PprofFunction&, const PprofFunction&) = default;
  friend void add_to(SeededHash& hash, const PprofFunction& function);
};

// A file with code. Its addresses are those of its first executable segment, rounded to pages, so
// that a file is one mapping in all processes and in all profiles.
struct PprofMapping {
  std::uint64_t start = 0;
  std::uint64_t limit = 0;
  std::uint64_t file_offset = 0;
  std::uint32_t file = 0;
  std::uint32_t build_id = 0;  // hexadecimal digits

  friend bool operator==(const PprofMapping&, const PprofMapping&) = default;
  friend void add_to(SeededHash& hash, const PprofMapping& mapping);
};

struct PprofLine {
  std::uint32_t function = 0;
  std::int64_t line = 0;  // 0: unknown

  friend bool operator==(const PprofLine&, const PprofLine&) = default;
  friend void add_to(SeededHash& hash, const PprofLine& line);
};

struct PprofLocation {
  static constexpr std::uint32_t kNoMapping = std::numeric_limits<std::uint32_t>::max();

  std::uint64_t address = 0;  // in the file, not in a process
  std::uint32_t mapping = kNoMapping;
  std::uint32_t lines = 0;  // for PprofProfile::lines()
  bool is_folded = false;   // the linker gave several functions this code

  friend bool operator==(const PprofLocation&, const PprofLocation&) = default;
  friend void add_to(SeededHash& hash, const PprofLocation& location);
};

// Has a text, or a number if `text` is 0.
struct PprofLabel {
  std::uint32_t key = 0;
  std::uint32_t text = 0;
  std::int64_t number = 0;
  std::uint32_t unit = 0;  // of the number

  friend bool operator==(const PprofLabel&, const PprofLabel&) = default;
  friend auto operator<=>(const PprofLabel&, const PprofLabel&) = default;
  friend void add_to(SeededHash& hash, const PprofLabel& label);
};

struct PprofSample {
  std::uint32_t labels = 0;  // for PprofProfile::labels()
  std::uint32_t stack = 0;   // for PprofProfile::stack()

  friend bool operator==(const PprofSample&, const PprofSample&) = default;
  friend void add_to(SeededHash& hash, const PprofSample& sample);
};

// Such as "cpu" and "nanoseconds".
struct PprofValueType {
  std::string type;
  std::string unit;

  friend bool operator==(const PprofValueType&, const PprofValueType&) = default;
};

// Stops at the limits of the type.
[[nodiscard]] std::int64_t sum_within_limits(std::int64_t a, std::int64_t b);

class PprofProfile {
 public:
  static constexpr std::size_t kMaxTextBytes = 1024;

  // `hash_seed` has no influence on what is kept.
  explicit PprofProfile(std::vector<PprofValueType> sample_types,
                        std::uint64_t hash_seed = random_seed());

  // About the profile as a whole. The writer repairs these texts as add_text() does.
  std::string default_sample_type;  // the `type` of one of them; "": readers take the last one
  PprofValueType period_type;
  std::int64_t period = 0;
  std::int64_t time_ns = 0;  // since the epoch
  std::int64_t duration_ns = 0;
  std::set<std::string> comments;
  std::string own_data;              // the bytes of field 1000, which other readers skip
  std::optional<SampleTimes> times;  // normalized, of samples(); not of a decoded profile

  // Malformed UTF-8 becomes U+FFFD; a longer text than kMaxTextBytes is cut and ends in "...".
  std::uint32_t add_text(std::string_view text);
  std::uint32_t add_function(const PprofFunction& function);
  // The first mapping is the title of the profile; pprof shows its file name.
  std::uint32_t add_mapping(const PprofMapping& mapping);
  // `lines`: the innermost inlined function first. Without lines, the location gets one whose
  // function is named "[libfoo.so]" after the file of the mapping, or "[unknown]" without mapping.
  std::uint32_t add_location(const PprofLocation& location_without_lines,
                             std::span<const PprofLine> lines);
  // A set: the order does not matter, and equal labels are one. The number 0 without unit gets its
  // key as unit, which is what pprof assumes where a number has none. A label with nothing at all
  // is left out.
  std::uint32_t add_labels(std::vector<PprofLabel> labels);
  // Locations, the leaf first.
  std::uint32_t add_stack(std::span<const std::uint32_t> locations);
  // Adds `values`, one for each sample type, to those of the sample with these labels and this
  // stack. A sum stops at the limits of its type. Returns the place of the sample in samples().
  // `longest_ns`: of the blocks that are added, 0 where that is not known.
  std::uint32_t add_sample(const PprofSample& sample, std::span<const std::int64_t> values,
                           std::int64_t longest_ns = 0);

  [[nodiscard]] std::span<const PprofValueType> sample_types() const { return sample_types_; }
  [[nodiscard]] std::uint32_t text_count() const { return texts_.size(); }
  [[nodiscard]] std::string_view text(std::uint32_t index) const { return texts_[index]; }
  [[nodiscard]] std::span<const PprofFunction> functions() const { return functions_.all(); }
  [[nodiscard]] std::span<const PprofMapping> mappings() const { return mappings_.all(); }
  [[nodiscard]] std::span<const PprofLocation> locations() const { return locations_.all(); }
  [[nodiscard]] std::uint32_t lines_count() const { return lines_.size(); }
  [[nodiscard]] std::span<const PprofLine> lines(std::uint32_t index) const {
    return lines_[index];
  }
  [[nodiscard]] std::uint32_t labels_count() const { return labels_.size(); }
  [[nodiscard]] std::span<const PprofLabel> labels(std::uint32_t index) const {
    return labels_[index];
  }
  [[nodiscard]] std::uint32_t stack_count() const { return stacks_.size(); }
  [[nodiscard]] std::span<const std::uint32_t> stack(std::uint32_t index) const {
    return stacks_[index];
  }
  [[nodiscard]] std::span<const PprofSample> samples() const { return samples_.all(); }
  [[nodiscard]] std::span<const std::int64_t> values(std::size_t sample) const {
    return std::span(values_).subspan(sample * sample_types_.size(), sample_types_.size());
  }
  // The largest that was added to the sample, in nanoseconds; 0: unknown.
  [[nodiscard]] std::int64_t longest(std::size_t sample) const {
    return sample < longest_.size() ? longest_[sample] : 0;
  }
  [[nodiscard]] bool has_longest() const { return !longest_.empty(); }

  // The memory in use.
  [[nodiscard]] std::size_t bytes() const;

 private:
  std::uint32_t add_name_of(std::uint32_t mapping);

  std::vector<PprofValueType> sample_types_;
  InternedTexts texts_;
  InternedValues<PprofFunction> functions_;
  InternedValues<PprofMapping> mappings_;
  InternedLists<PprofLine> lines_;
  InternedValues<PprofLocation> locations_;
  InternedLists<PprofLabel> labels_;
  InternedLists<std::uint32_t> stacks_;
  InternedValues<PprofSample> samples_;
  std::vector<std::int64_t> values_;   // sample_types_.size() for each of samples_
  std::vector<std::int64_t> longest_;  // of the first samples_; the others have none
};

}  // namespace profd
