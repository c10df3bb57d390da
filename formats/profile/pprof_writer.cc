#include "formats/profile/pprof_writer.h"

#include <algorithm>
#include <string_view>

#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>

#include "formats/base/gzip.h"
#include "formats/profile/pprof_format.h"
#include "formats/profile/pprof_order.h"

namespace profd {
namespace {

using protozero::pbf_writer;

// 5,000 stacks of 42 frames: 3 packs them to 112 bytes each in 12 ms, 6 to 108 in 22 ms, and 9 to
// 107 in 150 ms. On a real host's minute, 6 saves 5 % over 3.
constexpr int kPprofGzipLevel = 6;

std::uint64_t id_of(std::uint32_t place) { return std::uint64_t{place} + 1; }

// protobuf leaves out a 0.
void add_number(pbf_writer& message, std::uint32_t field, std::uint64_t number) {
  if (number != 0) message.add_uint64(field, number);
}

void add_signed(pbf_writer& message, std::uint32_t field, std::int64_t number) {
  if (number != 0) message.add_int64(field, number);
}

// protozero leaves out a submessage without fields, but an unnamed sample type has its values too.
void write_value_type(pbf_writer& file, std::uint32_t field, const PprofTables::ValueType& type) {
  std::string bytes;
  pbf_writer message(bytes);
  add_number(message, pprof::value_type::kType, type.type);
  add_number(message, pprof::value_type::kUnit, type.unit);
  file.add_message(field, bytes);
}

void write_header(pbf_writer& file, const PprofTables& tables) {
  namespace field = pprof::profile;
  add_number(file, field::kDefaultSampleType, tables.default_sample_type);
  if (tables.period_type.type != 0 || tables.period_type.unit != 0) {
    write_value_type(file, field::kPeriodType, tables.period_type);
  }
  add_signed(file, field::kPeriod, tables.period);
  add_signed(file, field::kTimeNs, tables.time_ns);
  add_signed(file, field::kDurationNs, tables.duration_ns);
  file.add_packed_uint32(field::kComment, tables.comments.begin(), tables.comments.end());
}

void write_mapping(pbf_writer& file, const PprofMapping& mapping, std::uint32_t place) {
  namespace field = pprof::mapping;
  pbf_writer message(file, pprof::profile::kMapping);
  message.add_uint64(field::kId, id_of(place));
  add_number(message, field::kStart, mapping.start);
  add_number(message, field::kLimit, mapping.limit);
  add_number(message, field::kFileOffset, mapping.file_offset);
  add_number(message, field::kFile, mapping.file);
  add_number(message, field::kBuildId, mapping.build_id);
  for (const std::uint32_t flag :
       {field::kHasFunctions, field::kHasFiles, field::kHasLines, field::kHasInlined}) {
    message.add_bool(flag, true);
  }
}

void write_function(pbf_writer& file, const PprofFunction& function, std::uint32_t place) {
  namespace field = pprof::function;
  pbf_writer message(file, pprof::profile::kFunction);
  message.add_uint64(field::kId, id_of(place));
  add_number(message, field::kName, function.name);
  add_number(message, field::kSystemName, function.system_name);
  add_number(message, field::kFile, function.file);
  add_signed(message, field::kStartLine, function.start_line);
}

void write_location(pbf_writer& file, const PprofTables& tables, std::uint32_t place) {
  namespace field = pprof::location;
  const PprofTables::Location& location = tables.locations[place];
  pbf_writer message(file, pprof::profile::kLocation);
  message.add_uint64(field::kId, id_of(place));
  if (location.mapping != PprofLocation::kNoMapping) {
    message.add_uint64(field::kMapping, id_of(location.mapping));
  }
  add_number(message, field::kAddress, location.address);
  for (const PprofLine& line : tables.lines_of(location)) {
    pbf_writer part(message, field::kLine);
    part.add_uint64(pprof::line::kFunction, id_of(line.function));
    add_signed(part, pprof::line::kLine, line.line);
  }
  if (location.is_folded) message.add_bool(field::kIsFolded, true);
}

void write_label(pbf_writer& labels, const PprofLabel& label) {
  namespace field = pprof::label;
  pbf_writer message(labels, pprof::sample::kLabel);
  add_number(message, field::kKey, label.key);
  add_number(message, field::kText, label.text);
  add_signed(message, field::kNumber, label.number);
  add_number(message, field::kUnit, label.unit);
}

// Packed numbers. protozero appends them byte by byte; most of a file are the frames, so that
// counts.
class PackedNumbers {
 public:
  template <class Numbers, class Convert>
  std::string_view pack(const Numbers& numbers, const Convert& convert) {
    bytes_.resize(std::max(bytes_.size(), numbers.size() * protozero::max_varint_length));
    char* end = bytes_.data();
    for (const auto number : numbers) end += protozero::write_varint(end, convert(number));
    return {bytes_.data(), static_cast<std::size_t>(end - bytes_.data())};
  }

 private:
  std::string bytes_;
};

// The samples of a file. Those of a run have equal labels, which are encoded once.
class SampleWriter {
 public:
  SampleWriter(pbf_writer& file, const PprofTables& tables) : file_(file), tables_(tables) {}

  void write(std::uint32_t place) {
    const PprofTables::Sample& sample = tables_.samples[place];
    bytes_.clear();
    pbf_writer message(bytes_);
    const std::string_view ids = numbers_.pack(tables_.frames_of(sample), id_of);
    if (!ids.empty()) message.add_bytes(pprof::sample::kLocation, ids.data(), ids.size());
    const auto values = tables_.values_of(place);
    message.add_packed_int64(pprof::sample::kValue, values.begin(), values.end());
    // Before the others, which then end the message, so that the reader knows those of a run.
    if (const std::int64_t longest = tables_.longest_of(place); longest != 0) {
      PprofLabel label = tables_.longest_label;
      label.number = longest;
      write_label(message, label);
    }
    bytes_ += labels_of(sample);
    file_.add_message(pprof::profile::kSample, bytes_);
  }

 private:
  const std::string& labels_of(const PprofTables::Sample& sample) {
    if (last_ != nullptr && tables_.have_equal_labels(*last_, sample)) return labels_;
    last_ = &sample;
    labels_.clear();
    pbf_writer labels(labels_);
    for (const PprofLabel& label : tables_.labels_of(sample)) write_label(labels, label);
    return labels_;
  }

  pbf_writer& file_;
  const PprofTables& tables_;
  PackedNumbers numbers_;
  std::string bytes_;
  const PprofTables::Sample* last_ = nullptr;
  std::string labels_;  // of *last_
};

// An upper bound of the usual size, so that the file seldom moves while it grows.
std::size_t usual_bytes(const PprofTables& tables) {
  std::size_t bytes =
      tables.own_data.size() + 64 * tables.mappings.size() + 24 * tables.functions.size() +
      24 * tables.locations.size() + 8 * tables.lines.size() + 24 * tables.samples.size() +
      3 * tables.frames.size() + 12 * tables.labels.size() + 16 * tables.longest.size() + 4096;
  for (const std::string_view text : tables.texts) bytes += text.size() + 3;
  return bytes;
}

}  // namespace

std::string encode_pprof_tables(const PprofTables& tables) {
  namespace field = pprof::profile;
  std::string bytes;
  bytes.reserve(usual_bytes(tables));
  pbf_writer file(bytes);
  for (const auto& type : tables.sample_types) write_value_type(file, field::kSampleType, type);
  for (const std::string_view text : tables.texts) {
    file.add_string(field::kText, text.data(), text.size());
  }
  write_header(file, tables);
  for (std::uint32_t i = 0; i < tables.mappings.size(); ++i) {
    write_mapping(file, tables.mappings[i], i);
  }
  for (std::uint32_t i = 0; i < tables.functions.size(); ++i) {
    write_function(file, tables.functions[i], i);
  }
  for (std::uint32_t i = 0; i < tables.locations.size(); ++i) write_location(file, tables, i);
  SampleWriter samples(file, tables);
  for (std::uint32_t i = 0; i < tables.samples.size(); ++i) samples.write(i);
  if (!tables.times.empty()) {
    file.add_bytes(field::kSampleTimes, tables.times.data(), tables.times.size());
  }
  add_own_data(bytes, tables.own_data);
  return bytes;
}

void add_own_data(std::string& encoded, std::string_view own_data) {
  if (own_data.empty()) return;
  pbf_writer(encoded).add_bytes(pprof::profile::kOwnData, own_data.data(), own_data.size());
}

std::string encode_pprof(const PprofProfile& profile) {
  return encode_pprof_tables(order_pprof(profile).tables);
}

std::string encode_pprof_gzip(const PprofProfile& profile) {
  return pack_gzip(encode_pprof(profile), kPprofGzipLevel);
}

}  // namespace profd
