// The part of pprof_reader.h that reads the tables.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <protozero/pbf_reader.hpp>
#include <protozero/varint.hpp>

#include "formats/profile/block_names.h"
#include "formats/profile/packed_numbers.h"
#include "formats/profile/pprof_format.h"
#include "formats/profile/pprof_ids.h"
#include "formats/profile/pprof_reader.h"

namespace profd {
namespace {

using protozero::data_view;
using protozero::pbf_reader;
using protozero::pbf_wire_type;

std::string_view text_of(const data_view& bytes) { return {bytes.data(), bytes.size()}; }

std::size_t bytes_of(const std::vector<data_view>& messages) {
  const auto add = [](std::size_t bytes, const data_view& message) {
    return bytes + message.size();
  };
  return std::accumulate(messages.begin(), messages.end(), std::size_t{0}, add);
}

std::uint32_t count_of(std::size_t size) { return static_cast<std::uint32_t>(size); }

// Ids of one and two bytes, of which most are, come in no order that a branch could predict.
std::uint64_t decoded_id(const char*& at, const char* end) {
  if (end - at < 2) return protozero::decode_varint(&at, end);
  const unsigned first = static_cast<unsigned char>(at[0]);
  const unsigned second = static_cast<unsigned char>(at[1]);
  const unsigned has_second = first >> 7;
  if ((has_second & second >> 7) != 0) return protozero::decode_varint(&at, end);
  at += 1 + has_second;
  return (first & 0x7f) | (second << 7 & -has_second);
}

// Reads the fields of the file, then its tables in the order in which they refer to each other. A
// refusal is sticky: reading goes on with zeros to the end of the entry, and then ends.
class TablesReader {
 public:
  TablesReader() = default;
  explicit TablesReader(const PprofSampleSink& sink) : sink_(&sink) {}

  PprofResult<PprofTables> read(std::string_view protobuf) && {
    if (protobuf.size() > kMaxPprofBytes) return PprofRefusal::kTooLarge;
    protobuf_ = protobuf;
    try {
      read_file(protobuf);
      read_tables();
    } catch (const protozero::exception&) {
      return PprofRefusal::kBadProtobuf;
    }
    if (refusal_) return *refusal_;
    return std::move(to_);
  }

 private:
  using Messages = std::vector<data_view>;

  void refuse(PprofRefusal refusal) {
    if (!refusal_) refusal_ = refusal;
  }

  std::uint64_t number(pbf_reader& message) {
    if (message.has_wire_type(pbf_wire_type::varint)) return message.get_uint64();
    refuse(PprofRefusal::kWrongType);
    message.skip();
    return 0;
  }
  std::int64_t signed_number(pbf_reader& message) {
    return static_cast<std::int64_t>(number(message));
  }
  data_view bytes(pbf_reader& message) {
    if (message.has_wire_type(pbf_wire_type::length_delimited)) return message.get_view();
    refuse(PprofRefusal::kWrongType);
    message.skip();
    return {};
  }
  // Packed or not.
  template <class Use>
  void numbers(pbf_reader& message, const Use& use) {
    if (!message.has_wire_type(pbf_wire_type::length_delimited)) return use(number(message));
    const data_view packed = message.get_view();
    const char* at = packed.data();
    const char* const end = at + packed.size();
    while (at != end) use(protozero::decode_varint(&at, end));
  }
  template <class T>
  void add(std::vector<T>& entries, const T& entry, std::size_t limit) {
    if (entries.size() >= limit) return refuse(PprofRefusal::kTooManyEntries);
    entries.push_back(entry);
  }

  std::uint32_t text(std::uint64_t index) {
    if (index < to_.texts.size()) return static_cast<std::uint32_t>(index);
    refuse(PprofRefusal::kBadText);
    return 0;
  }
  std::uint32_t entry(const PprofIds& ids, std::uint64_t id) {
    if (const auto index = ids.find(id)) return *index;
    refuse(PprofRefusal::kUnknownId);
    return 0;
  }

  // Samples may come before what they refer to: they are read at the end.
  void count_sample(pbf_reader& file) {
    (void)bytes(file);
    if (++sample_count_ > kMaxPprofEntries) refuse(PprofRefusal::kTooManyEntries);
  }

  void read_file(std::string_view protobuf);
  void read_field(pbf_reader& file);
  void read_time(std::int64_t time_ns);
  void read_tables();
  template <class Read>
  void read_each(const Messages& messages, const Read& read);
  PprofTables::ValueType read_value_type(pbf_reader message);
  void read_mapping(pbf_reader message);
  void read_function(pbf_reader message);
  void read_location(pbf_reader message);
  PprofLine read_line(pbf_reader message);
  // Those of one sample.
  struct SampleLabels {
    std::string_view all;   // from the first one to the end, but for one of the longest block
    bool are_last = false;  // nothing else follows the first one
    std::int64_t longest_before = 0;  // the first one of `all`
    std::int64_t longest_within = 0;
  };
  void begin_labels_of_one(PprofTables::Sample& sample);
  void read_label_of(PprofTables::Sample& sample, pbf_reader& message, SampleLabels& labels);
  void read_locations(pbf_reader& message);
  void read_sample(pbf_reader message);
  void read_frames(pbf_reader& message);
  [[nodiscard]] bool has_labels_of_last(const pbf_reader& message) const;
  void end_sample(PprofTables::Sample sample, std::size_t first_value,
                  const PprofTables::Sample& labelled);
  void pass_samples();
  void keep_packed_frames(pbf_reader& message);
  void check_packed_frames();
  void pass_sample(const PprofTables::Sample& sample);
  PprofLabel read_label(pbf_reader message);
  std::int64_t longest_in(const PprofLabel& label);

  PprofTables to_;
  std::string_view protobuf_;
  const PprofSampleSink* sink_ = nullptr;  // null: samples become entries of the tables
  std::size_t sample_count_ = 0;           // with a sink
  data_view packed_frames_;                // of the current sample, with a sink
  bool has_packed_frames_ = false;
  std::string_view checked_frames_;  // the last packed ones
  std::string encoded_frames_;
  std::optional<PprofRefusal> refusal_;
  std::vector<std::uint64_t> comments_;
  std::uint64_t default_sample_type_ = 0;
  data_view period_type_;
  Messages sample_types_;
  Messages mappings_;
  Messages functions_;
  Messages locations_;
  Messages samples_;
  // Of the last sample whose message ends with labels: their bytes without the first tag.
  std::string_view last_labels_;
  PprofTables::Sample last_labelled_;
  std::int64_t last_longest_ = 0;  // in these bytes
  std::int64_t longest_ = 0;       // of the current sample
  PprofIds mapping_ids_;
  PprofIds function_ids_;
  PprofIds location_ids_;
};

void TablesReader::read_file(std::string_view protobuf) {
  pbf_reader file(protobuf.data(), protobuf.size());
  while (!refusal_ && file.next()) read_field(file);
}

void TablesReader::read_field(pbf_reader& file) {
  namespace field = pprof::profile;
  switch (file.tag()) {
    case field::kSampleType:
      return add(sample_types_, bytes(file), kMaxPprofTypes);
    case field::kSample:
      if (sink_ != nullptr) return count_sample(file);
      return add(samples_, bytes(file), kMaxPprofEntries);
    case field::kMapping:
      return add(mappings_, bytes(file), kMaxPprofMappings);
    case field::kLocation:
      return add(locations_, bytes(file), kMaxPprofEntries);
    case field::kFunction:
      return add(functions_, bytes(file), kMaxPprofEntries);
    case field::kText:
      return add(to_.texts, text_of(bytes(file)), kMaxPprofEntries);
    case field::kTimeNs:
      return read_time(signed_number(file));
    case field::kDurationNs:
      to_.duration_ns = signed_number(file);
      return;
    case field::kPeriodType:
      period_type_ = bytes(file);
      return;
    case field::kPeriod:
      to_.period = signed_number(file);
      return;
    case field::kComment:
      return numbers(file, [this](std::uint64_t n) { add(comments_, n, kMaxPprofComments); });
    case field::kDefaultSampleType:
      default_sample_type_ = number(file);
      return;
    case field::kOwnData:
      to_.own_data = text_of(bytes(file));
      return;
    case field::kSampleTimes:
      to_.times = text_of(bytes(file));
      return;
    default:
      file.skip();
  }
}

void TablesReader::read_time(std::int64_t time_ns) {
  if (to_.time_ns != 0) refuse(PprofRefusal::kConcatenated);
  to_.time_ns = time_ns;
}

template <class Read>
void TablesReader::read_each(const Messages& messages, const Read& read) {
  for (const data_view& message : messages) {
    if (refusal_) return;
    read(pbf_reader(message));
  }
}

void TablesReader::read_tables() {
  if (to_.texts.empty() || !to_.texts.front().empty()) return refuse(PprofRefusal::kNoTexts);
  to_.default_sample_type = text(default_sample_type_);
  to_.period_type = read_value_type(pbf_reader(period_type_));
  for (const std::uint64_t comment : comments_) to_.comments.push_back(text(comment));
  to_.mappings.reserve(mappings_.size());
  to_.functions.reserve(functions_.size());
  to_.locations.reserve(locations_.size());
  to_.samples.reserve(samples_.size());
  to_.frames.reserve(bytes_of(samples_) / 2);  // most have more than one byte, and values besides
  read_each(sample_types_, [this](const pbf_reader& message) {
    to_.sample_types.push_back(read_value_type(message));
  });
  read_each(mappings_, [this](const pbf_reader& message) { read_mapping(message); });
  if (!mapping_ids_.finish()) refuse(PprofRefusal::kBadId);
  read_each(functions_, [this](const pbf_reader& message) { read_function(message); });
  if (!function_ids_.finish()) refuse(PprofRefusal::kBadId);
  read_each(locations_, [this](const pbf_reader& message) { read_location(message); });
  if (!location_ids_.finish()) refuse(PprofRefusal::kBadId);
  if (sink_ != nullptr) return pass_samples();
  read_each(samples_, [this](const pbf_reader& message) { read_sample(message); });
}

PprofTables::ValueType TablesReader::read_value_type(pbf_reader message) {
  namespace field = pprof::value_type;
  PprofTables::ValueType type;
  while (message.next()) {
    switch (message.tag()) {
      case field::kType:
        type.type = text(number(message));
        break;
      case field::kUnit:
        type.unit = text(number(message));
        break;
      default:
        message.skip();
    }
  }
  return type;
}

void TablesReader::read_mapping(pbf_reader message) {
  namespace field = pprof::mapping;
  PprofMapping mapping;
  std::uint64_t id = 0;
  while (message.next()) {
    switch (message.tag()) {
      case field::kId:
        id = number(message);
        break;
      case field::kStart:
        mapping.start = number(message);
        break;
      case field::kLimit:
        mapping.limit = number(message);
        break;
      case field::kFileOffset:
        mapping.file_offset = number(message);
        break;
      case field::kFile:
        mapping.file = text(number(message));
        break;
      case field::kBuildId:
        mapping.build_id = text(number(message));
        break;
      default:
        message.skip();
    }
  }
  mapping_ids_.add(id);
  to_.mappings.push_back(mapping);
}

void TablesReader::read_function(pbf_reader message) {
  namespace field = pprof::function;
  PprofFunction function;
  std::uint64_t id = 0;
  while (message.next()) {
    switch (message.tag()) {
      case field::kId:
        id = number(message);
        break;
      case field::kName:
        function.name = text(number(message));
        break;
      case field::kSystemName:
        function.system_name = text(number(message));
        break;
      case field::kFile:
        function.file = text(number(message));
        break;
      case field::kStartLine:
        function.start_line = signed_number(message);
        break;
      default:
        message.skip();
    }
  }
  function_ids_.add(id);
  to_.functions.push_back(function);
}

void TablesReader::read_location(pbf_reader message) {
  namespace field = pprof::location;
  PprofTables::Location location{.first_line = count_of(to_.lines.size())};
  std::uint64_t id = 0;
  std::uint64_t mapping = 0;
  while (message.next()) {
    switch (message.tag()) {
      case field::kId:
        id = number(message);
        break;
      case field::kMapping:
        mapping = number(message);
        break;
      case field::kAddress:
        location.address = number(message);
        break;
      case field::kLine:
        add(to_.lines, read_line(pbf_reader(bytes(message))), kMaxPprofParts);
        break;
      case field::kIsFolded:
        location.is_folded = number(message) != 0;
        break;
      default:
        message.skip();
    }
  }
  if (mapping != 0) location.mapping = entry(mapping_ids_, mapping);
  location.line_count = count_of(to_.lines.size()) - location.first_line;
  location_ids_.add(id);
  to_.locations.push_back(location);
}

PprofLine TablesReader::read_line(pbf_reader message) {
  namespace field = pprof::line;
  PprofLine line;
  std::uint64_t function = 0;
  while (message.next()) {
    switch (message.tag()) {
      case field::kFunction:
        function = number(message);
        break;
      case field::kLine:
        line.line = signed_number(message);
        break;
      default:
        message.skip();
    }
  }
  line.function = entry(function_ids_, function);
  return line;
}

// Most samples have the labels of the one before them. `message` is at its first label.
bool TablesReader::has_labels_of_last(const pbf_reader& message) const {
  return message.has_wire_type(pbf_wire_type::length_delimited) &&
         text_of(message.data()) == last_labels_;
}

// The labels of samples that were passed on are not needed any more.
void TablesReader::begin_labels_of_one(PprofTables::Sample& sample) {
  to_.labels.clear();
  last_labels_ = {};
  last_labelled_ = {};
  sample.first_label = 0;
}

void TablesReader::read_locations(pbf_reader& message) {
  if (sink_ != nullptr) {
    keep_packed_frames(message);
  } else {
    read_frames(message);
  }
}

void TablesReader::read_sample(pbf_reader message) {
  namespace field = pprof::sample;
  PprofTables::Sample sample{.first_frame = count_of(to_.frames.size()),
                             .first_label = count_of(to_.labels.size())};
  const std::size_t first_value = to_.values.size();
  SampleLabels labels;
  while (message.next()) {
    labels.are_last = labels.all.empty() || (labels.are_last && message.tag() == field::kLabel);
    switch (message.tag()) {
      case field::kLocation:
        read_locations(message);
        break;
      case field::kValue:
        numbers(message, [this](std::uint64_t value) {
          to_.values.push_back(static_cast<std::int64_t>(value));
        });
        break;
      case field::kLabel:
        if (labels.all.empty() && has_labels_of_last(message)) {
          longest_ = std::max(labels.longest_before, last_longest_);
          return end_sample(sample, first_value, last_labelled_);
        }
        read_label_of(sample, message, labels);
        break;
      default:
        message.skip();
    }
  }
  sample.label_count = count_of(to_.labels.size()) - sample.first_label;
  if (!labels.all.empty() && labels.are_last) {
    last_labels_ = labels.all;
    last_labelled_ = sample;
    last_longest_ = labels.longest_within;
  }
  longest_ = std::max(labels.longest_before, labels.longest_within);
  end_sample(sample, first_value, sample);
}

void TablesReader::read_label_of(PprofTables::Sample& sample, pbf_reader& message,
                                 SampleLabels& labels) {
  const std::string_view rest = text_of(message.data());
  const PprofLabel label = read_label(pbf_reader(bytes(message)));
  if (const std::int64_t longest = longest_in(label); longest != 0) {
    std::int64_t& known = labels.all.empty() ? labels.longest_before : labels.longest_within;
    known = std::max(known, longest);
    return;
  }
  if (labels.all.empty()) {
    labels.all = rest;
    if (sink_ != nullptr) begin_labels_of_one(sample);
  }
  add(to_.labels, label, kMaxPprofParts);
}

// Most bytes of a file are these.
void TablesReader::read_frames(pbf_reader& message) {
  if (!message.has_wire_type(pbf_wire_type::length_delimited)) {
    to_.frames.push_back(entry(location_ids_, number(message)));
    return;
  }
  const data_view packed = message.get_view();
  const std::size_t before = to_.frames.size();
  to_.frames.resize(before + packed.size());  // each number has a byte or more
  auto to = to_.frames.begin() + static_cast<std::ptrdiff_t>(before);
  const char* at = packed.data();
  const char* const end = at + packed.size();
  const std::uint64_t in_order = location_ids_.count_in_order();
  while (at != end) {
    const std::uint64_t id = decoded_id(at, end);
    *to++ = id - 1 < in_order ? count_of(id - 1) : entry(location_ids_, id);
  }
  to_.frames.erase(to, to_.frames.end());
}

// The sample gets the labels of `labelled`.
void TablesReader::end_sample(PprofTables::Sample sample, std::size_t first_value,
                              const PprofTables::Sample& labelled) {
  const std::size_t values = to_.values.size() - first_value;
  if (values == 0 || values != to_.sample_types.size()) refuse(PprofRefusal::kWrongValueCount);
  sample.depth = count_of(to_.frames.size()) - sample.first_frame;
  sample.first_label = labelled.first_label;
  sample.label_count = labelled.label_count;
  if (sink_ != nullptr) return pass_sample(sample);
  if (longest_ != 0 || !to_.longest.empty()) {
    to_.longest.resize(to_.samples.size());
    to_.longest.push_back(longest_);
  }
  to_.samples.push_back(sample);
}

void TablesReader::pass_samples() {
  pbf_reader file(protobuf_.data(), protobuf_.size());
  while (!refusal_ && file.next()) {
    if (file.tag() == pprof::profile::kSample) {
      read_sample(pbf_reader(bytes(file)));
    } else {
      file.skip();
    }
  }
}

// Frames stay as they lie in the file where they are one list of ids that are in order. Others are
// decoded, and encoded anew.
void TablesReader::keep_packed_frames(pbf_reader& message) {
  const bool is_first = !has_packed_frames_ && to_.frames.empty();
  if (is_first && message.has_wire_type(pbf_wire_type::length_delimited) &&
      location_ids_.count_in_order() == to_.locations.size()) {
    packed_frames_ = message.get_view();
    has_packed_frames_ = true;
    return check_packed_frames();
  }
  if (std::exchange(has_packed_frames_, false)) {
    const char* at = packed_frames_.data();
    const char* const end = at + packed_frames_.size();
    while (at != end) to_.frames.push_back(count_of(decoded_id(at, end) - 1));
  }
  read_frames(message);
}

// The numbers that end the list before, too, have been checked.
void TablesReader::check_packed_frames() {
  const std::string_view frames = text_of(packed_frames_);
  const char* at = frames.data();
  const char* const end = at + frames.size() - common_last_numbers(checked_frames_, frames);
  checked_frames_ = frames;
  const std::uint64_t count = to_.locations.size();
  while (at != end) {
    if (decoded_id(at, end) - 1 >= count) return refuse(PprofRefusal::kUnknownId);
  }
}

void TablesReader::pass_sample(const PprofTables::Sample& sample) {
  std::string_view frames = has_packed_frames_ ? text_of(packed_frames_) : std::string_view();
  if (!to_.frames.empty()) {
    encoded_frames_.clear();
    for (const std::uint32_t location : to_.frames) {
      protozero::write_varint(std::back_inserter(encoded_frames_), std::uint64_t{location} + 1);
    }
    frames = encoded_frames_;
  }
  if (!refusal_) {
    (*sink_)(to_, {.frames = frames,
                   .labels = to_.labels_of(sample),
                   .values = to_.values,
                   .longest = longest_});
  }
  has_packed_frames_ = false;
  to_.frames.clear();
  to_.values.clear();
}

PprofLabel TablesReader::read_label(pbf_reader message) {
  namespace field = pprof::label;
  PprofLabel label;
  while (message.next()) {
    switch (message.tag()) {
      case field::kKey:
        label.key = text(number(message));
        break;
      case field::kText:
        label.text = text(number(message));
        break;
      case field::kNumber:
        label.number = signed_number(message);
        break;
      case field::kUnit:
        label.unit = text(number(message));
        break;
      default:
        message.skip();
    }
  }
  return label;
}

// 0: it is another label.
std::int64_t TablesReader::longest_in(const PprofLabel& label) {
  const bool is_longest = label.text == 0 && label.number > 0 &&
                          to_.texts[label.key] == kLongestLabel &&
                          to_.texts[label.unit] == kLongestUnit;
  if (!is_longest) return 0;
  to_.longest_label = {.key = label.key, .unit = label.unit};
  return label.number;
}

}  // namespace

PprofResult<PprofTables> read_pprof_tables(std::string_view protobuf) {
  return TablesReader().read(protobuf);
}

PprofResult<PprofTables> read_pprof_samples(std::string_view protobuf,
                                            const PprofSampleSink& sink) {
  PprofResult<PprofTables> tables = TablesReader(sink).read(protobuf);
  if (tables) tables->labels.clear();
  return tables;
}

}  // namespace profd
