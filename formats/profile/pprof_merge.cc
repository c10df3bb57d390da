#include "formats/profile/pprof_merge.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "formats/base/errors.h"

namespace profd {
namespace {

constexpr std::uint32_t kUnused = 0xffffffff;
constexpr std::uint32_t kUsed = 0xfffffffe;  // and not added yet

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

// The size is rounded up to pages, and the address left out, as in pprof.
PprofMapping key_of(const PprofMapping& mapping) {
  constexpr std::uint64_t kPage = 0x1000;
  return {.limit = (mapping.limit - mapping.start + kPage - 1) / kPage * kPage,
          .file_offset = mapping.file_offset,
          .file = mapping.build_id != 0 ? mapping.build_id : mapping.file};
}

}  // namespace

// One call of PprofMerge::add(): the places of a profile's entries in the merged one. Entries are
// added table by table, each in its order: most of the time goes to memory that the cache does not
// hold, and the tables of files that profd wrote are in one order in all of them.
class PprofAddition {
 public:
  PprofAddition(PprofMerge& merge, const PprofTables& from)
      : merge_(merge),
        to_(merge.profile_),
        from_(from),
        texts_(from.texts.size(), kUnused),
        functions_(from.functions.size(), kUnused),
        mappings_(from.mappings.size(), kUnused),
        locations_(from.locations.size(), kUnused) {}

  void run(const PprofSelect& select) {
    if (to_.mappings().empty() && !mappings_.empty()) (void)mapping(0);  // the title stays first
    choose_samples(select);
    mark_functions();
    add_functions();
    add_locations();
    add_samples();
  }

 private:
  struct Chosen {
    std::size_t sample = 0;    // in from_
    std::uint32_t labels = 0;  // in to_
  };

  void choose_samples(const PprofSelect& select) {
    std::optional<std::uint32_t> labels;
    const PprofTables::Sample* before = nullptr;
    for (std::size_t i = 0; i < from_.samples.size(); ++i) {
      const PprofTables::Sample& sample = from_.samples[i];
      const auto is_zero = [](std::int64_t value) { return value == 0; };
      if (std::ranges::all_of(from_.values_of(i), is_zero)) continue;
      if (before == nullptr || !from_.have_equal_labels(*before, sample)) {
        labels = select_labels(sample, select);
      }
      before = &sample;
      if (!labels) continue;
      chosen_.push_back({i, *labels});
      for (const std::uint32_t frame : from_.frames_of(sample)) locations_[frame] = kUsed;
    }
  }

  void mark_functions() {
    for (std::size_t i = 0; i < locations_.size(); ++i) {
      if (locations_[i] != kUsed) continue;
      for (const PprofLine& line : from_.lines_of(from_.locations[i])) {
        functions_[line.function] = kUsed;
      }
    }
  }

  void add_functions() {
    for (std::size_t i = 0; i < functions_.size(); ++i) {
      if (functions_[i] != kUsed) continue;
      const PprofFunction& from = from_.functions[i];
      functions_[i] = to_.add_function({.name = text(from.name),
                                        .system_name = text(from.system_name),
                                        .file = text(from.file),
                                        .start_line = from.start_line});
    }
  }

  void add_locations() {
    for (std::size_t i = 0; i < locations_.size(); ++i) {
      if (locations_[i] == kUsed) locations_[i] = add_location(from_.locations[i]);
    }
  }

  void add_samples() {
    for (const Chosen& chosen : chosen_) {
      const auto frames = from_.frames_of(from_.samples[chosen.sample]);
      frames_.resize(frames.size());
      for (std::size_t i = 0; i < frames.size(); ++i) frames_[i] = locations_[frames[i]];
      to_.add_sample({chosen.labels, to_.add_stack(frames_)}, from_.values_of(chosen.sample));
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
    std::uint32_t& place = texts_[index];
    if (place == kUnused) place = to_.add_text(from_.texts[index]);
    return place;
  }

  std::uint32_t mapping(std::uint32_t index) {
    std::uint32_t& place = mappings_[index];
    if (place != kUnused) return place;
    PprofMapping mapping = from_.mappings[index];
    mapping.file = text(mapping.file);
    mapping.build_id = text(mapping.build_id);
    place = merge_.mapping_keys_.add(key_of(mapping));
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
  std::vector<std::uint32_t> texts_;  // these four: places in to_, kUnused or kUsed
  std::vector<std::uint32_t> functions_;
  std::vector<std::uint32_t> mappings_;
  std::vector<std::uint32_t> locations_;
  std::vector<std::uint32_t> frames_;
  std::vector<PprofLine> lines_;
};

PprofMerge::PprofMerge(PprofMergeOptions options, std::uint64_t hash_seed)
    : options_(options), hash_seed_(hash_seed), profile_({}, hash_seed), mapping_keys_(hash_seed) {}

Result<void> PprofMerge::add(const PprofTables& tables, const PprofSelect& select) {
  std::vector<PprofValueType> types = value_types_of(tables);
  const PprofValueType period_type = value_type_of(tables, tables.period_type);
  if (is_empty_) {
    profile_ = PprofProfile(std::move(types), hash_seed_);
    profile_.period_type = period_type;
    is_empty_ = false;
  } else if (!std::ranges::equal(types, profile_.sample_types()) ||
             period_type != profile_.period_type) {
    return invalid_argument("could not merge profiles of different sample types");
  }
  merge_header(tables);
  PprofAddition(*this, tables).run(select);
  return {};
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

PprofProfile profile_of(const PprofTables& tables) {
  PprofMerge merge;
  (void)merge.add(tables);
  return std::move(merge).take();
}

}  // namespace profd
