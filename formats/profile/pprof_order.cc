#include "formats/profile/pprof_order.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "formats/base/utf8_text.h"

namespace profd {
namespace {

// The place of each entry of a table among those that are written, by index into the table.
using Places = std::vector<std::uint32_t>;

// The entries of a table that are written.
class Used {
 public:
  explicit Used(std::size_t size) : used_(size) {}
  void add(std::uint32_t index) { used_[index] = 1; }
  [[nodiscard]] std::vector<std::uint32_t> indexes() const {
    std::vector<std::uint32_t> indexes;
    for (std::uint32_t i = 0; i < used_.size(); ++i) {
      if (used_[i] != 0) indexes.push_back(i);
    }
    return indexes;
  }

 private:
  std::vector<char> used_;
};

struct RankedText {
  std::uint64_t start = 0;  // its first bytes, which decide most comparisons
  std::string_view text;
  std::uint32_t index = 0;

  friend bool operator<(const RankedText& a, const RankedText& b) {
    return a.start != b.start ? a.start < b.start : a.text < b.text;
  }
};

RankedText ranked(std::string_view text, std::uint32_t index) {
  std::uint64_t start = 0;
  std::memcpy(&start, text.data(), std::min(text.size(), sizeof start));
  if constexpr (std::endian::native == std::endian::little) start = __builtin_bswap64(start);
  return {start, text, index};
}

// An entry with its indexes replaced by places, so that its content is comparable.
template <class T>
struct Placed {
  T entry;
  std::uint32_t index = 0;  // into the profile's table
};

// Sorts the entries by `key`, and returns the place of each.
template <class T, class Key>
Places place(std::vector<Placed<T>>& entries, std::size_t table_size, const Key& key) {
  std::ranges::sort(entries, {}, [&](const Placed<T>& placed) { return key(placed.entry); });
  Places places(table_size);
  for (std::uint32_t at = 0; at < entries.size(); ++at) places[entries[at].index] = at;
  return places;
}

// Each step needs what the steps before it have found.
class Ordering {
 public:
  explicit Ordering(const PprofProfile& profile) : profile_(profile) {}

  OrderedPprof run() && {
    find_used();
    find_used_texts();
    place_texts();
    write_header();
    place_functions();
    place_mappings();
    place_locations();
    place_labels();
    place_stacks();
    write_samples();
    return std::move(ordered_);
  }

 private:
  void find_used();
  void find_used_of_location(const PprofLocation& location);
  void find_used_texts();
  void add_header_text(const std::string& text);
  void place_texts();
  void write_header();
  void place_functions();
  void place_mappings();
  void place_locations();
  void write_location(const PprofLocation& location);
  void place_labels();
  void place_stacks();
  void write_samples();
  void write_sample(std::uint32_t index);

  const PprofProfile& profile_;
  OrderedPprof ordered_;
  PprofTables& to_ = ordered_.tables;

  std::vector<std::uint32_t> samples_;
  Used stacks_{profile_.stack_count()};
  Used labels_{profile_.labels_count()};
  Used locations_{profile_.locations().size()};
  Used mappings_{profile_.mappings().size()};
  Used functions_{profile_.functions().size()};
  Used texts_{profile_.text_count()};
  std::vector<RankedText> ranked_texts_;

  Places text_places_;  // those of the header, in its order, after those of the profile's table
  Places function_places_;
  Places mapping_places_;
  Places location_places_;
  Places labels_places_;
  std::vector<std::vector<PprofLabel>> labels_by_index_;
  std::optional<std::uint32_t> written_labels_;  // those at the end of the tables
  Places stack_places_;
};

void Ordering::find_used() {
  const auto samples = profile_.samples();
  for (std::uint32_t i = 0; i < samples.size(); ++i) {
    if (std::ranges::all_of(profile_.values(i), [](std::int64_t v) { return v == 0; })) continue;
    samples_.push_back(i);
    stacks_.add(samples[i].stack);
    labels_.add(samples[i].labels);
  }
  for (const std::uint32_t stack : stacks_.indexes()) {
    for (const std::uint32_t location : profile_.stack(stack)) locations_.add(location);
  }
  if (!profile_.mappings().empty()) mappings_.add(0);
  for (const std::uint32_t location : locations_.indexes()) {
    find_used_of_location(profile_.locations()[location]);
  }
}

void Ordering::find_used_of_location(const PprofLocation& location) {
  if (location.mapping != PprofLocation::kNoMapping) mappings_.add(location.mapping);
  for (const PprofLine& line : profile_.lines(location.lines)) functions_.add(line.function);
}

void Ordering::find_used_texts() {
  for (const std::uint32_t index : functions_.indexes()) {
    const PprofFunction& function = profile_.functions()[index];
    for (const auto text : {function.name, function.system_name, function.file}) texts_.add(text);
  }
  for (const std::uint32_t index : mappings_.indexes()) {
    texts_.add(profile_.mappings()[index].file);
    texts_.add(profile_.mappings()[index].build_id);
  }
  for (const std::uint32_t index : labels_.indexes()) {
    for (const PprofLabel& label : profile_.labels(index)) {
      for (const auto text : {label.key, label.text, label.unit}) texts_.add(text);
    }
  }
  texts_.add(0);
}

void Ordering::add_header_text(const std::string& text) {
  std::string_view valid = text;
  if (text.size() > PprofProfile::kMaxTextBytes || !is_printable(text)) {
    valid = ordered_.repaired.emplace_back(printable_utf8(text, PprofProfile::kMaxTextBytes));
  }
  ranked_texts_.push_back(ranked(valid, static_cast<std::uint32_t>(text_places_.size())));
  text_places_.push_back(0);
}

void Ordering::place_texts() {
  text_places_.resize(profile_.text_count());
  for (const std::uint32_t index : texts_.indexes()) {
    ranked_texts_.push_back(ranked(profile_.text(index), index));
  }
  add_header_text(profile_.default_sample_type);
  add_header_text(profile_.period_type.type);
  add_header_text(profile_.period_type.unit);
  for (const PprofValueType& type : profile_.sample_types()) {
    add_header_text(type.type);
    add_header_text(type.unit);
  }
  for (const std::string& comment : profile_.comments) add_header_text(comment);
  std::ranges::sort(ranked_texts_, std::less<>{});
  for (const RankedText& text : ranked_texts_) {
    if (to_.texts.empty() || to_.texts.back() != text.text) to_.texts.push_back(text.text);
    text_places_[text.index] = static_cast<std::uint32_t>(to_.texts.size() - 1);
  }
}

void Ordering::write_header() {
  const std::uint32_t* place = text_places_.data() + profile_.text_count();
  to_.default_sample_type = *place++;
  to_.period_type.type = *place++;
  to_.period_type.unit = *place++;
  to_.sample_types.resize(profile_.sample_types().size());
  for (PprofTables::ValueType& type : to_.sample_types) {
    type.type = *place++;
    type.unit = *place++;
  }
  to_.comments.assign(place, place + profile_.comments.size());
  std::ranges::sort(to_.comments);
  to_.comments.erase(std::unique(to_.comments.begin(), to_.comments.end()), to_.comments.end());
  to_.period = profile_.period;
  to_.time_ns = profile_.time_ns;
  to_.duration_ns = profile_.duration_ns;
  to_.own_data = profile_.own_data;
}

void Ordering::place_functions() {
  std::vector<Placed<PprofFunction>> functions;
  for (const std::uint32_t index : functions_.indexes()) {
    PprofFunction function = profile_.functions()[index];
    function.name = text_places_[function.name];
    function.system_name = text_places_[function.system_name];
    function.file = text_places_[function.file];
    functions.push_back({function, index});
  }
  function_places_ = place(functions, profile_.functions().size(), [](const PprofFunction& f) {
    return std::tuple(f.name, f.system_name, f.file, f.start_line);
  });
  for (const auto& placed : functions) to_.functions.push_back(placed.entry);
}

void Ordering::place_mappings() {
  std::vector<Placed<PprofMapping>> mappings;
  for (const std::uint32_t index : mappings_.indexes()) {
    PprofMapping mapping = profile_.mappings()[index];
    mapping.file = text_places_[mapping.file];
    mapping.build_id = text_places_[mapping.build_id];
    mappings.push_back({mapping, index});
  }
  const PprofMapping title = mappings.empty() ? PprofMapping{} : mappings.front().entry;
  mapping_places_ = place(mappings, profile_.mappings().size(), [&](const PprofMapping& m) {
    return std::tuple(m != title, m.file, m.build_id, m.start, m.limit, m.file_offset);
  });
  for (const auto& placed : mappings) to_.mappings.push_back(placed.entry);
}

// Most locations differ in mapping or address; the lines decide the rest.
void Ordering::place_locations() {
  const auto is_before = [this](const Placed<PprofLocation>& a, const Placed<PprofLocation>& b) {
    const auto key = [](const PprofLocation& l) {
      return std::tuple(l.mapping + 1, l.address, l.is_folded);
    };
    if (key(a.entry) != key(b.entry)) return key(a.entry) < key(b.entry);
    return std::ranges::lexicographical_compare(
        profile_.lines(a.entry.lines), profile_.lines(b.entry.lines),
        [this](const PprofLine& left, const PprofLine& right) {
          return std::pair(function_places_[left.function], left.line) <
                 std::pair(function_places_[right.function], right.line);
        });
  };
  std::vector<Placed<PprofLocation>> locations;
  for (const std::uint32_t index : locations_.indexes()) {
    PprofLocation location = profile_.locations()[index];
    if (location.mapping != PprofLocation::kNoMapping) {
      location.mapping = mapping_places_[location.mapping];
    }
    locations.push_back({location, index});
  }
  std::ranges::sort(locations, is_before);
  location_places_.resize(profile_.locations().size());
  for (std::uint32_t at = 0; at < locations.size(); ++at) {
    location_places_[locations[at].index] = at;
    write_location(locations[at].entry);
  }
}

void Ordering::write_location(const PprofLocation& location) {
  const auto lines = profile_.lines(location.lines);
  to_.locations.push_back({.address = location.address,
                           .mapping = location.mapping,
                           .first_line = static_cast<std::uint32_t>(to_.lines.size()),
                           .line_count = static_cast<std::uint32_t>(lines.size()),
                           .is_folded = location.is_folded});
  for (const PprofLine& line : lines) {
    to_.lines.push_back({function_places_[line.function], line.line});
  }
}

void Ordering::place_labels() {
  labels_by_index_.resize(profile_.labels_count());
  std::vector<std::uint32_t> order = labels_.indexes();
  for (const std::uint32_t index : order) {
    auto& labels = labels_by_index_[index];
    for (const PprofLabel& label : profile_.labels(index)) {
      labels.push_back({text_places_[label.key], text_places_[label.text], label.number,
                        text_places_[label.unit]});
    }
    std::ranges::sort(labels);
  }
  std::ranges::sort(order, [this](std::uint32_t a, std::uint32_t b) {
    return labels_by_index_[a] < labels_by_index_[b];
  });
  labels_places_.resize(profile_.labels_count());
  for (std::uint32_t at = 0; at < order.size(); ++at) labels_places_[order[at]] = at;
}

void Ordering::place_stacks() {
  struct RootFirst {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::uint32_t index = 0;
  };
  std::vector<std::uint32_t> frames;
  std::vector<RootFirst> stacks;
  for (const std::uint32_t index : stacks_.indexes()) {
    const auto stack = profile_.stack(index);
    stacks.push_back({frames.size(), frames.size() + stack.size(), index});
    for (auto frame = stack.rbegin(); frame != stack.rend(); ++frame) {
      frames.push_back(location_places_[*frame]);
    }
  }
  const auto frames_of = [&frames](const RootFirst& stack) {
    return std::span(frames).subspan(stack.begin, stack.end - stack.begin);
  };
  std::ranges::sort(stacks, [&](const RootFirst& a, const RootFirst& b) {
    return std::ranges::lexicographical_compare(frames_of(a), frames_of(b));
  });
  stack_places_.resize(profile_.stack_count());
  for (std::uint32_t at = 0; at < stacks.size(); ++at) stack_places_[stacks[at].index] = at;
}

void Ordering::write_samples() {
  std::ranges::sort(samples_, {}, [this](std::uint32_t index) {
    const PprofSample& sample = profile_.samples()[index];
    return std::pair(labels_places_[sample.labels], stack_places_[sample.stack]);
  });
  to_.samples.reserve(samples_.size());
  for (const std::uint32_t index : samples_) write_sample(index);
}

void Ordering::write_sample(std::uint32_t index) {
  const PprofSample& sample = profile_.samples()[index];
  const auto stack = profile_.stack(sample.stack);
  const auto& labels = labels_by_index_[sample.labels];
  const auto values = profile_.values(index);
  if (written_labels_ != sample.labels) {
    to_.labels.insert(to_.labels.end(), labels.begin(), labels.end());
    written_labels_ = sample.labels;
  }
  to_.samples.push_back(
      {.first_frame = static_cast<std::uint32_t>(to_.frames.size()),
       .depth = static_cast<std::uint32_t>(stack.size()),
       .first_label = static_cast<std::uint32_t>(to_.labels.size() - labels.size()),
       .label_count = static_cast<std::uint32_t>(labels.size())});
  for (const std::uint32_t frame : stack) to_.frames.push_back(location_places_[frame]);
  to_.values.insert(to_.values.end(), values.begin(), values.end());
}

}  // namespace

OrderedPprof order_pprof(const PprofProfile& profile) { return Ordering(profile).run(); }

}  // namespace profd
