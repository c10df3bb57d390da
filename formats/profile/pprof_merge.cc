#include "formats/profile/pprof_merge.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "formats/base/errors.h"

namespace profd {
namespace {

PprofValueType value_type_of(const PprofTables& tables, const PprofTables::ValueType& type) {
  return {std::string(tables.texts[type.type]), std::string(tables.texts[type.unit])};
}

std::vector<PprofValueType> value_types_of(const PprofTables& tables) {
  std::vector<PprofValueType> types;
  for (const PprofTables::ValueType& type : tables.sample_types) {
    types.push_back(value_type_of(tables, type));
  }
  return types;
}

// The size is rounded up to pages, and the address left out, as in pprof. With a build id, pprof
// leaves out the name too.
PprofMapping key_of(const PprofMapping& mapping) {
  constexpr std::uint64_t kPage = 0x1000;
  return {.limit = (mapping.limit - mapping.start + kPage - 1) / kPage * kPage,
          .file_offset = mapping.file_offset,
          .file = mapping.file,
          .build_id = mapping.build_id};
}

}  // namespace

std::span<const std::uint32_t> PprofPlaces::entries() {
  // To sort a large part takes longer than to look at all.
  constexpr std::size_t kSmallPart = 16;
  if (entries_.size() < places_.size() / kSmallPart) {
    std::ranges::sort(entries_);
  } else {
    entries_.clear();
    for (std::uint32_t i = 0; i < places_.size(); ++i) {
      if (places_[i] != kUnused) entries_.push_back(i);
    }
  }
  return entries_;
}

void PprofPlaces::clear() {
  for (const std::uint32_t entry : entries_) places_[entry] = kUnused;
  entries_.clear();
}

PprofTablePlaces::PprofTablePlaces(const PprofTables& tables)
    : texts(tables.texts.size()),
      functions(tables.functions.size()),
      mappings(tables.mappings.size()),
      locations(tables.locations.size()) {}

void PprofTablePlaces::clear() {
  texts.clear();
  functions.clear();
  mappings.clear();
  locations.clear();
}

// One call of PprofMerge::add(): the places of a profile's entries in the merged one. Entries are
// added table by table, each in its order: most of the time goes to memory that the cache does not
// hold, and the tables of files that profd wrote are in one order in all of them.
class PprofAddition {
 public:
  // `places` are clear.
  PprofAddition(PprofMerge& merge, const PprofTables& from, PprofTablePlaces& places)
      : merge_(merge),
        to_(merge.profile_),
        from_(from),
        texts_(places.texts),
        functions_(places.functions),
        mappings_(places.mappings),
        locations_(places.locations) {
    if (to_.mappings().empty() && !mappings_.empty()) (void)mapping(0);  // the title stays first
  }

  void choose(std::uint32_t sample, const PprofSelect& select) {
    const auto is_zero = [](std::int64_t value) { return value == 0; };
    if (std::ranges::all_of(from_.values_of(sample), is_zero)) return;
    const PprofTables::Sample& chosen = from_.samples[sample];
    if (before_ == nullptr || !from_.have_equal_labels(*before_, chosen)) {
      labels_ = select_labels(chosen, select);
    }
    before_ = &chosen;
    if (!labels_) return;
    chosen_.push_back({sample, *labels_});
    for (const std::uint32_t frame : from_.frames_of(chosen)) locations_.mark(frame);
  }

  void add_chosen() {
    mark_functions();
    add_functions();
    add_locations();
    add_samples();
  }

 private:
  struct Chosen {
    std::uint32_t sample = 0;  // in from_
    std::uint32_t labels = 0;  // in to_
  };

  void mark_functions() {
    for (const std::uint32_t i : locations_.entries()) {
      for (const PprofLine& line : from_.lines_of(from_.locations[i])) {
        functions_.mark(line.function);
      }
    }
  }

  void add_functions() {
    for (const std::uint32_t i : functions_.entries()) {
      const PprofFunction& from = from_.functions[i];
      functions_.set(i, to_.add_function({.name = text(from.name),
                                          .system_name = text(from.system_name),
                                          .file = text(from.file),
                                          .start_line = from.start_line}));
    }
  }

  void add_locations() {
    for (const std::uint32_t i : locations_.entries()) {
      locations_.set(i, add_location(from_.locations[i]));
    }
  }

  void add_samples() {
    for (const Chosen& chosen : chosen_) {
      const auto frames = from_.frames_of(from_.samples[chosen.sample]);
      frames_.resize(frames.size());
      for (std::size_t i = 0; i < frames.size(); ++i) frames_[i] = locations_[frames[i]];
      to_.add_sample({chosen.labels, to_.add_stack(frames_)}, from_.values_of(chosen.sample),
                     from_.longest_of(chosen.sample));
    }
  }

  std::optional<std::uint32_t> select_labels(const PprofTables::Sample& sample,
                                             const PprofSelect& select) {
    const auto from = from_.labels_of(sample);
    std::vector<PprofLabel> labels(from.begin(), from.end());
    if (select && !select(from_, labels)) return std::nullopt;
    for (PprofLabel& label : labels) {
      label.key = text(label.key);
      label.text = text(label.text);
      label.unit = text(label.unit);
    }
    return to_.add_labels(std::move(labels));
  }

  std::uint32_t text(std::uint32_t index) {
    if (texts_[index] == PprofPlaces::kUnused) texts_.set(index, to_.add_text(from_.texts[index]));
    return texts_[index];
  }

  std::uint32_t mapping(std::uint32_t index) {
    if (mappings_[index] != PprofPlaces::kUnused) return mappings_[index];
    PprofMapping mapping = from_.mappings[index];
    mapping.file = text(mapping.file);
    mapping.build_id = text(mapping.build_id);
    const std::uint32_t place = merge_.mapping_keys_.add(key_of(mapping));
    mappings_.set(index, place);
    if (place == to_.mappings().size()) (void)to_.add_mapping(mapping);
    return place;
  }

  std::uint32_t add_location(const PprofTables::Location& from) {
    PprofLocation location{.address = from.address, .is_folded = from.is_folded};
    if (from.mapping != PprofLocation::kNoMapping) {
      location.mapping = mapping(from.mapping);
      location.address +=
          to_.mappings()[location.mapping].start - from_.mappings[from.mapping].start;
    }
    if (merge_.options_.drop_addresses) location.address = 0;
    lines_.clear();
    for (const PprofLine& line : from_.lines_of(from)) {
      lines_.push_back({functions_[line.function], line.line});
    }
    return to_.add_location(location, lines_);
  }

  PprofMerge& merge_;
  PprofProfile& to_;
  const PprofTables& from_;
  std::vector<Chosen> chosen_;
  PprofPlaces& texts_;  // in to_
  PprofPlaces& functions_;
  PprofPlaces& mappings_;
  PprofPlaces& locations_;
  const PprofTables::Sample* before_ = nullptr;  // the sample that was looked at last
  std::optional<std::uint32_t> labels_;          // of that one, in to_; none: it is left out
  std::vector<std::uint32_t> frames_;
  std::vector<PprofLine> lines_;
};

PprofMerge::PprofMerge(PprofMergeOptions options, std::uint64_t hash_seed)
    : options_(options), hash_seed_(hash_seed), profile_({}, hash_seed), mapping_keys_(hash_seed) {}

Result<void> PprofMerge::add(const PprofTables& tables, const PprofSelect& select) {
  PprofTablePlaces places(tables);
  if (!add_header(tables)) {
    return invalid_argument("could not merge profiles of different sample types");
  }
  PprofAddition addition(*this, tables, places);
  for (std::uint32_t i = 0; i < tables.samples.size(); ++i) addition.choose(i, select);
  addition.add_chosen();
  return {};
}

bool PprofMerge::add_header(const PprofTables& tables) {
  std::vector<PprofValueType> types = value_types_of(tables);
  const PprofValueType period_type = value_type_of(tables, tables.period_type);
  if (is_empty_) {
    profile_ = PprofProfile(std::move(types), hash_seed_);
    profile_.period_type = period_type;
    is_empty_ = false;
  } else if (!std::ranges::equal(types, profile_.sample_types()) ||
             period_type != profile_.period_type) {
    return false;
  }
  merge_header(tables);
  return true;
}

void PprofMerge::merge_header(const PprofTables& tables) {
  if (profile_.default_sample_type.empty()) {
    profile_.default_sample_type = tables.texts[tables.default_sample_type];
  }
  if (profile_.period == 0 || profile_.period < tables.period) profile_.period = tables.period;
  profile_.duration_ns = sum_within_limits(profile_.duration_ns, tables.duration_ns);
  if (profile_.time_ns == 0 || (tables.time_ns != 0 && tables.time_ns < profile_.time_ns)) {
    profile_.time_ns = tables.time_ns;
  }
  for (const std::uint32_t comment : tables.comments) {
    profile_.comments.emplace(tables.texts[comment]);
  }
}

PprofProfile PprofParts::profile_of(std::span<const std::uint32_t> samples,
                                    const PprofSelect& select) {
  PprofMerge merge;
  (void)merge.add_header(tables_);
  places_.clear();
  PprofAddition addition(merge, tables_, places_);
  for (const std::uint32_t sample : samples) addition.choose(sample, select);
  addition.add_chosen();
  return std::move(merge).take();
}

PprofProfile profile_of(const PprofTables& tables) {
  PprofMerge merge;
  (void)merge.add(tables);
  return std::move(merge).take();
}

}  // namespace profd
