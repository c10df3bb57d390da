#include "formats/profile/pprof_order.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "formats/base/utf8_text.h"
#include "formats/profile/block_names.h"
#include "formats/profile/text_places.h"

namespace profd {
namespace {

// The ids from 1 on that take one byte.
constexpr std::ptrdiff_t kOneByteIds = 127;

// The place of each entry of a table among those that are written, by index into the table.
using Places = std::vector<std::uint32_t>;
constexpr std::uint32_t kUnwritten = 0xffffffff;

// The entries of a table that are written.
class Used {
 public:
  explicit Used(std::size_t size) : used_(size) {}
  void add(std::uint32_t index) { used_[index] = 1; }
  [[nodiscard]] bool has(std::uint32_t index) const { return used_[index] != 0; }
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

// An entry with its indexes replaced by places or ranks, so that its content is comparable.
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
    rank_texts();
    rank_functions();
    place_mappings();
    sort_locations();
    put_frequent_first();
    write_locations();
    write_mappings();
    write_header();
    place_labels();
    place_stacks();
    write_samples();
    write_times();
    to_.texts = std::move(text_places_).take();
    return std::move(ordered_);
  }

 private:
  void find_used();
  void find_used_of_location(const PprofLocation& location);
  void find_used_texts();
  void add_header_text(const std::string& text);
  void rank_texts();
  void rank_functions();
  void place_mappings();
  void sort_locations();
  void put_frequent_first();
  void write_locations();
  void write_location(const PprofLocation& location);
  std::uint32_t write_function(std::uint32_t index);
  void write_mappings();
  void write_header();
  void place_labels();
  void place_stacks();
  void write_samples();
  void write_sample(std::uint32_t index);
  void write_times();

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
  TextPlaces text_places_{profile_.text_count()};
  std::vector<std::uint32_t> header_texts_;  // indexes, in the order of the header
  Places function_ranks_;
  Places function_places_;
  std::vector<Placed<PprofMapping>> sorted_mappings_;
  Places mapping_places_;
  std::vector<Placed<PprofLocation>> sorted_locations_;
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
  header_texts_.push_back(text_places_.append(valid));
}

void Ordering::rank_texts() {
  for (const std::uint32_t index : texts_.indexes()) text_places_.add(profile_.text(index), index);
  add_header_text(profile_.default_sample_type);
  add_header_text(profile_.period_type.type);
  add_header_text(profile_.period_type.unit);
  for (const PprofValueType& type : profile_.sample_types()) {
    add_header_text(type.type);
    add_header_text(type.unit);
  }
  for (const std::string& comment : profile_.comments) add_header_text(comment);
  if (profile_.has_longest()) {
    header_texts_.push_back(text_places_.append(kLongestLabel));
    header_texts_.push_back(text_places_.append(kLongestUnit));
  }
  text_places_.rank();
  text_places_.place_of(0);  // "" is the first
}

void Ordering::rank_functions() {
  std::vector<Placed<PprofFunction>> functions;
  for (const std::uint32_t index : functions_.indexes()) {
    PprofFunction function = profile_.functions()[index];
    function.name = text_places_.rank_of(function.name);
    function.system_name = text_places_.rank_of(function.system_name);
    function.file = text_places_.rank_of(function.file);
    functions.push_back({function, index});
  }
  function_ranks_ = place(functions, profile_.functions().size(), [](const PprofFunction& f) {
    return std::tuple(f.name, f.system_name, f.file, f.start_line);
  });
}

void Ordering::place_mappings() {
  for (const std::uint32_t index : mappings_.indexes()) {
    PprofMapping mapping = profile_.mappings()[index];
    mapping.file = text_places_.rank_of(mapping.file);
    mapping.build_id = text_places_.rank_of(mapping.build_id);
    sorted_mappings_.push_back({mapping, index});
  }
  const PprofMapping title =
      sorted_mappings_.empty() ? PprofMapping{} : sorted_mappings_.front().entry;
  mapping_places_ = place(sorted_mappings_, profile_.mappings().size(), [&](const PprofMapping& m) {
    return std::tuple(m != title, m.file, m.build_id, m.start, m.limit, m.file_offset);
  });
}

// Most locations differ in mapping or address; the lines decide the rest.
void Ordering::sort_locations() {
  const auto is_before = [this](const Placed<PprofLocation>& a, const Placed<PprofLocation>& b) {
    const auto key = [](const PprofLocation& l) {
      return std::tuple(l.mapping + 1, l.address, l.is_folded);
    };
    if (key(a.entry) != key(b.entry)) return key(a.entry) < key(b.entry);
    return std::ranges::lexicographical_compare(
        profile_.lines(a.entry.lines), profile_.lines(b.entry.lines),
        [this](const PprofLine& left, const PprofLine& right) {
          return std::pair(function_ranks_[left.function], left.line) <
                 std::pair(function_ranks_[right.function], right.line);
        });
  };
  for (const std::uint32_t index : locations_.indexes()) {
    PprofLocation location = profile_.locations()[index];
    if (location.mapping != PprofLocation::kNoMapping) {
      location.mapping = mapping_places_[location.mapping];
    }
    sorted_locations_.push_back({location, index});
  }
  std::ranges::sort(sorted_locations_, is_before);
}

// About half of all frames have one of the 127 most frequent locations: with ids of one byte, the
// file is a fifth smaller before it is packed.
void Ordering::put_frequent_first() {
  if (std::ssize(sorted_locations_) <= kOneByteIds) return;
  std::vector<std::uint32_t> frames(profile_.locations().size());
  for (const std::uint32_t index : samples_) {
    for (const std::uint32_t frame : profile_.stack(profile_.samples()[index].stack)) {
      ++frames[frame];
    }
  }
  std::vector<std::uint32_t> order(sorted_locations_.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto rare_last = [&](std::uint32_t at) {
    return std::pair(-std::int64_t{frames[sorted_locations_[at].index]}, at);
  };
  std::ranges::nth_element(order, order.begin() + kOneByteIds, {}, rare_last);
  Used frequent(profile_.locations().size());
  for (const std::uint32_t at : std::span(order).first(kOneByteIds)) {
    frequent.add(sorted_locations_[at].index);
  }
  // Not of std::ranges: clang-tidy 14 can't parse the range that it returns.
  std::stable_partition(
      sorted_locations_.begin(), sorted_locations_.end(),
      [&](const Placed<PprofLocation>& location) { return frequent.has(location.index); });
}

void Ordering::write_locations() {
  location_places_.resize(profile_.locations().size());
  function_places_.resize(profile_.functions().size(), kUnwritten);
  for (std::uint32_t at = 0; at < sorted_locations_.size(); ++at) {
    location_places_[sorted_locations_[at].index] = at;
    write_location(sorted_locations_[at].entry);
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
    to_.lines.push_back({write_function(line.function), line.line});
  }
}

// Returns its place.
std::uint32_t Ordering::write_function(std::uint32_t index) {
  std::uint32_t& place = function_places_[index];
  if (place != kUnwritten) return place;
  place = static_cast<std::uint32_t>(to_.functions.size());
  PprofFunction function = profile_.functions()[index];
  function.name = text_places_.place_of(function.name);
  function.system_name = text_places_.place_of(function.system_name);
  function.file = text_places_.place_of(function.file);
  to_.functions.push_back(function);
  return place;
}

void Ordering::write_mappings() {
  for (const Placed<PprofMapping>& placed : sorted_mappings_) {
    PprofMapping mapping = profile_.mappings()[placed.index];
    mapping.file = text_places_.place_of(mapping.file);
    mapping.build_id = text_places_.place_of(mapping.build_id);
    to_.mappings.push_back(mapping);
  }
}

void Ordering::write_header() {
  text_places_.place_others();
  auto index = header_texts_.begin();
  const auto next = [&] { return text_places_.place_of(*index++); };
  to_.default_sample_type = next();
  to_.period_type.type = next();
  to_.period_type.unit = next();
  to_.sample_types.resize(profile_.sample_types().size());
  for (PprofTables::ValueType& type : to_.sample_types) {
    type.type = next();
    type.unit = next();
  }
  for (std::size_t i = 0; i < profile_.comments.size(); ++i) to_.comments.push_back(next());
  if (profile_.has_longest()) {
    to_.longest_label.key = next();
    to_.longest_label.unit = next();
  }
  std::ranges::sort(to_.comments);
  to_.comments.erase(std::unique(to_.comments.begin(), to_.comments.end()), to_.comments.end());
  to_.period = profile_.period;
  to_.time_ns = profile_.time_ns;
  to_.duration_ns = profile_.duration_ns;
  to_.own_data = profile_.own_data;
}

void Ordering::place_labels() {
  labels_by_index_.resize(profile_.labels_count());
  std::vector<std::uint32_t> order = labels_.indexes();
  for (const std::uint32_t index : order) {
    auto& labels = labels_by_index_[index];
    for (const PprofLabel& label : profile_.labels(index)) {
      labels.push_back({text_places_.place_of(label.key), text_places_.place_of(label.text),
                        label.number, text_places_.place_of(label.unit)});
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
  if (profile_.has_longest()) to_.longest.push_back(profile_.longest(index));
}

// An entry of a sample that is not written has no place.
void Ordering::write_times() {
  if (!profile_.times) return;
  Places places(profile_.samples().size(), kUnwritten);
  for (std::uint32_t at = 0; at < samples_.size(); ++at) places[samples_[at]] = at;
  SampleTimes times{.until = profile_.times->until};
  for (SampleTime time : profile_.times->entries) {
    time.sample = places[time.sample];
    if (time.sample != kUnwritten) times.entries.push_back(time);
  }
  normalize(times);
  to_.times = ordered_.repaired.emplace_back(encode_sample_times(times));
}

}  // namespace

OrderedPprof order_pprof(const PprofProfile& profile) { return Ordering(profile).run(); }

}  // namespace profd
