#include "formats/profile/pprof_profile.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "formats/base/utf8_text.h"

namespace profd {
namespace {

std::uint64_t word_of(std::uint32_t high, std::uint32_t low) {
  return std::uint64_t{high} << 32 | low;
}

}  // namespace

std::int64_t sum_within_limits(std::int64_t a, std::int64_t b) {
  using Limits = std::numeric_limits<std::int64_t>;
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b > 0 ? Limits::max() : Limits::min();
}

void add_to(SeededHash& hash, const PprofFunction& function) {
  hash.add(word_of(function.name, function.system_name));
  hash.add(function.file);
  hash.add(static_cast<std::uint64_t>(function.start_line));
}

void add_to(SeededHash& hash, const PprofMapping& mapping) {
  hash.add(mapping.start);
  hash.add(mapping.limit);
  hash.add(mapping.file_offset);
  hash.add(word_of(mapping.file, mapping.build_id));
}

void add_to(SeededHash& hash, const PprofLine& line) {
  hash.add(line.function);
  hash.add(static_cast<std::uint64_t>(line.line));
}

void add_to(SeededHash& hash, const PprofLocation& location) {
  hash.add(location.address);
  hash.add(word_of(location.mapping, location.lines));
  hash.add(location.is_folded ? 1 : 0);
}

void add_to(SeededHash& hash, const PprofLabel& label) {
  hash.add(word_of(label.key, label.text));
  hash.add(static_cast<std::uint64_t>(label.number));
  hash.add(label.unit);
}

void add_to(SeededHash& hash, const PprofSample& sample) {
  hash.add(word_of(sample.labels, sample.stack));
}

PprofProfile::PprofProfile(std::vector<PprofValueType> sample_types, std::uint64_t hash_seed)
    : sample_types_(std::move(sample_types)),
      texts_(hash_seed),
      functions_(hash_seed),
      mappings_(hash_seed),
      lines_(hash_seed),
      locations_(hash_seed),
      labels_(hash_seed),
      stacks_(hash_seed),
      samples_(hash_seed) {
  (void)texts_.add({});
}

std::uint32_t PprofProfile::add_text(std::string_view text) {
  if (text.size() <= kMaxTextBytes && is_printable(text)) return texts_.add(text);
  return texts_.add(printable_utf8(text, kMaxTextBytes));
}

std::uint32_t PprofProfile::add_function(const PprofFunction& function) {
  assert(std::max({function.name, function.system_name, function.file}) < texts_.size());
  return functions_.add(function);
}

std::uint32_t PprofProfile::add_mapping(const PprofMapping& mapping) {
  assert(std::max(mapping.file, mapping.build_id) < texts_.size());
  return mappings_.add(mapping);
}

std::size_t PprofProfile::bytes() const {
  return texts_.bytes() + functions_.bytes() + mappings_.bytes() + lines_.bytes() +
         locations_.bytes() + labels_.bytes() + stacks_.bytes() + samples_.bytes() +
         (values_.capacity() + longest_.capacity()) * sizeof(std::int64_t);
}

std::uint32_t PprofProfile::add_name_of(std::uint32_t mapping) {
  if (mapping == PprofLocation::kNoMapping) return add_text("[unknown]");
  std::string_view file = texts_[mappings_[mapping].file];
  if (file.starts_with('[')) return mappings_[mapping].file;
  file.remove_prefix(file.rfind('/') + 1);
  if (file.empty()) return add_text("[unknown]");
  return add_text('[' + std::string(file) + ']');
}

std::uint32_t PprofProfile::add_location(const PprofLocation& location_without_lines,
                                         std::span<const PprofLine> lines) {
  PprofLocation location = location_without_lines;
  assert(location.mapping == PprofLocation::kNoMapping || location.mapping < mappings_.size());
  assert(std::ranges::all_of(
      lines, [this](const PprofLine& line) { return line.function < functions_.size(); }));
  if (lines.empty()) {
    const std::uint32_t name = add_name_of(location.mapping);
    const PprofLine line{.function = add_function({.name = name})};
    location.lines = lines_.add({&line, 1});
  } else {
    location.lines = lines_.add(lines);
  }
  return locations_.add(location);
}

std::uint32_t PprofProfile::add_labels(std::vector<PprofLabel> labels) {
  for (PprofLabel& label : labels) {
    assert(std::max({label.key, label.text, label.unit}) < texts_.size());
    if (label.text != 0) label.number = label.unit = 0;
    if (label.text == 0 && label.number == 0 && label.unit == 0) label.unit = label.key;
  }
  std::erase_if(labels, [](const PprofLabel& label) { return label == PprofLabel{}; });
  std::ranges::sort(labels);
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  return labels_.add(labels);
}

std::uint32_t PprofProfile::add_stack(std::span<const std::uint32_t> locations) {
  assert(std::ranges::all_of(
      locations, [this](std::uint32_t location) { return location < locations_.size(); }));
  return stacks_.add(locations);
}

std::uint32_t PprofProfile::add_sample(const PprofSample& sample,
                                       std::span<const std::int64_t> values,
                                       std::int64_t longest_ns) {
  assert(sample.labels < labels_.size() && sample.stack < stacks_.size());
  assert(values.size() == sample_types_.size());
  const std::uint32_t place = samples_.add(sample);
  const std::size_t first = place * sample_types_.size();
  if (first == values_.size()) values_.resize(first + sample_types_.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values_[first + i] = sum_within_limits(values_[first + i], values[i]);
  }
  if (longest_ns > 0) {
    if (place >= longest_.size()) longest_.resize(samples_.size());
    longest_[place] = std::max(longest_[place], longest_ns);
  }
  return place;
}

}  // namespace profd
