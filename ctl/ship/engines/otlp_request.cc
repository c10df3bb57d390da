#include "ctl/ship/engines/otlp_request.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>

#include "ctl/ship/engines/engine.h"
#include "formats/base/errors.h"
#include "formats/base/gzip.h"
#include "formats/base/log_text.h"
#include "formats/base/utf8_text.h"
#include "formats/profile/block_names.h"

namespace profd {
namespace {

using protozero::pbf_writer;

namespace otlp {
namespace request {
constexpr std::uint32_t kResourceProfiles = 1;
constexpr std::uint32_t kDictionary = 2;
}  // namespace request
namespace resource_profiles {
constexpr std::uint32_t kResource = 1;
constexpr std::uint32_t kScopeProfiles = 2;
}  // namespace resource_profiles
namespace resource {
constexpr std::uint32_t kAttribute = 1;
}  // namespace resource
namespace scope_profiles {
constexpr std::uint32_t kScope = 1;
constexpr std::uint32_t kProfile = 2;
}  // namespace scope_profiles
namespace scope {
constexpr std::uint32_t kName = 1;
constexpr std::uint32_t kVersion = 2;
}  // namespace scope
namespace key_value {
constexpr std::uint32_t kKey = 1;
constexpr std::uint32_t kValue = 2;
}  // namespace key_value
namespace any_value {
constexpr std::uint32_t kText = 1;
}  // namespace any_value
namespace profile {
constexpr std::uint32_t kSampleType = 1;
constexpr std::uint32_t kSample = 2;
constexpr std::uint32_t kTimeNs = 3;
constexpr std::uint32_t kDurationNs = 4;
constexpr std::uint32_t kPeriodType = 5;
constexpr std::uint32_t kPeriod = 6;
}  // namespace profile
namespace value_type {
constexpr std::uint32_t kType = 1;
constexpr std::uint32_t kUnit = 2;
}  // namespace value_type
namespace sample {
constexpr std::uint32_t kStack = 1;
constexpr std::uint32_t kAttributes = 2;
constexpr std::uint32_t kValues = 4;
}  // namespace sample
namespace dictionary {
constexpr std::uint32_t kMapping = 1;
constexpr std::uint32_t kLocation = 2;
constexpr std::uint32_t kFunction = 3;
constexpr std::uint32_t kLink = 4;
constexpr std::uint32_t kText = 5;
constexpr std::uint32_t kAttribute = 6;
constexpr std::uint32_t kStack = 7;
}  // namespace dictionary
namespace mapping {
constexpr std::uint32_t kStart = 1;
constexpr std::uint32_t kLimit = 2;
constexpr std::uint32_t kFileOffset = 3;
constexpr std::uint32_t kFile = 4;
constexpr std::uint32_t kAttributes = 5;
}  // namespace mapping
namespace location {
constexpr std::uint32_t kMapping = 1;
constexpr std::uint32_t kAddress = 2;
constexpr std::uint32_t kLine = 3;
}  // namespace location
namespace line {
constexpr std::uint32_t kFunction = 1;
constexpr std::uint32_t kLine = 2;
}  // namespace line
namespace function {
constexpr std::uint32_t kName = 1;
constexpr std::uint32_t kSystemName = 2;
constexpr std::uint32_t kFile = 3;
constexpr std::uint32_t kStartLine = 4;
}  // namespace function
namespace link {
constexpr std::uint32_t kTraceId = 1;
constexpr std::uint32_t kSpanId = 2;
}  // namespace link
namespace attribute {
constexpr std::uint32_t kKey = 1;
constexpr std::uint32_t kValue = 2;
}  // namespace attribute
namespace stack {
constexpr std::uint32_t kLocations = 1;
}  // namespace stack
namespace response {
constexpr std::uint32_t kPartialSuccess = 1;
}  // namespace response
namespace partial_success {
constexpr std::uint32_t kRejected = 1;
constexpr std::uint32_t kMessage = 2;
}  // namespace partial_success
}  // namespace otlp

constexpr int kOtlpGzipLevel = 6;

constexpr EngineTraits kOtlp{.kind = "otlp",
                             // Pyroscope takes 4 MiB, the Collector 20 MiB.
                             .max_profile_bytes = std::size_t{1} << 20,
                             .max_samples = 8000,
                             .max_depth = 1000,  // of Pyroscope (push_request.cc)
                             // OTLP has no limit of age. The history has two days of windows.
                             .max_age = std::chrono::hours(47),
                             .max_future = std::chrono::minutes(9),
                             .bytes_per_second = 3e6,
                             // Of Pyroscope, after it has checked the tenant. The Collector takes
                             // a request without profiles.
                             .empty_refusal = "missing profile metadata dictionary"};

constexpr EngineAnswers kOtlpAnswers{.engine = "receiver of OTLP",
                                     .method = "v1development/profiles",
                                     // Specification of OTLP/HTTP, "Retryable Response Codes".
                                     .refuses_with_500 = true,
                                     .protobuf_type = "application/x-protobuf",
                                     .has_members = true};

// By label. See opentelemetry.io/docs/specs/semconv/resource.
const std::map<std::string_view, std::string_view>& resource_names() {
  static const std::map<std::string_view, std::string_view> names{
      {"container", "container.id"},
      {"host", "host.name"},
      {"namespace", "k8s.namespace.name"},
      {"pod", "k8s.pod.name"},
      {"runtime", "process.runtime.name"},
      {kServiceLabel, "service.name"},
      {"user", "process.owner"}};
  return names;
}

// Indexes have a type with a sign there.
std::int32_t index_of(std::uint32_t place) { return static_cast<std::int32_t>(place); }

// Behind the entry without content.
std::int32_t entry_of(std::uint32_t place) { return index_of(place + 1); }

// protobuf leaves out a 0.
void add_index(pbf_writer& message, std::uint32_t field, std::int32_t index) {
  if (index != 0) message.add_int32(field, index);
}

void write_text_value(pbf_writer& pair, std::uint32_t field, std::string_view text) {
  pbf_writer value(pair, field);
  value.add_string(otlp::any_value::kText, text.data(), text.size());
}

// Whether the values are the samples, and the same in CPU time by a fixed period.
bool has_cpu_time_by_period(const PprofProfile& profile) {
  const auto types = profile.sample_types();
  const bool has_types = types.size() == 2 && types[0] == PprofValueType{"samples", "count"} &&
                         types[1] == PprofValueType{"cpu", "nanoseconds"} &&
                         profile.period_type == types[1] && profile.period > 0;
  if (!has_types) return false;
  for (std::size_t i = 0; i < profile.samples().size(); ++i) {
    const auto values = profile.values(i);
    if (values[1] % profile.period != 0 || values[1] / profile.period != values[0]) return false;
  }
  return true;
}

// Whether the values are the number of blocks, and their time.
bool has_times_of_blocks(const PprofProfile& profile) {
  const auto types = profile.sample_types();
  if (types.size() != 2 || types[1].unit != "nanoseconds") return false;
  const std::string& type = types[1].type;
  return type == kOffCpuType || type == kRunnableType || type == kWallType;
}

// Protozero leaves out a message without fields, and the indexes behind such an entry would be
// wrong. So each entry is encoded by itself.
class OtlpRequest {
 public:
  explicit OtlpRequest(PprofProfile profile) : profile_(std::move(profile)) {}

  std::string encode(const SeriesLabels& labels) {
    pbf_writer request(bytes_);
    {
      pbf_writer profiles(request, otlp::request::kResourceProfiles);
      write_resource(profiles, labels);
      pbf_writer scope_profiles(profiles, otlp::resource_profiles::kScopeProfiles);
      write_scope(scope_profiles);
      write_profiles(scope_profiles);
    }
    // Last, since the others add to its texts and attributes.
    pbf_writer dictionary(request, otlp::request::kDictionary);
    write_dictionary(dictionary);
    dictionary.commit();
    return std::move(bytes_);
  }

 private:
  static void write_resource(pbf_writer& profiles, const SeriesLabels& labels) {
    pbf_writer resource(profiles, otlp::resource_profiles::kResource);
    for (const auto& [name, value] : labels) {
      if (name.starts_with("__")) continue;
      const auto known = resource_names().find(name);
      const std::string_view key =
          known == resource_names().end() ? std::string_view(name) : known->second;
      pbf_writer pair(resource, otlp::resource::kAttribute);
      pair.add_string(otlp::key_value::kKey, key.data(), key.size());
      write_text_value(pair, otlp::key_value::kValue, value);
    }
  }

  static void write_scope(pbf_writer& profiles) {
    pbf_writer scope(profiles, otlp::scope_profiles::kScope);
    scope.add_string(otlp::scope::kName, "profd");
    scope.add_string(otlp::scope::kVersion, PROFD_VERSION);
  }

  void write_profiles(pbf_writer& scope_profiles) {
    if (has_cpu_time_by_period(profile_)) {
      write_profile(scope_profiles, 0);
      return;
    }
    if (has_times_of_blocks(profile_)) {
      write_profile(scope_profiles, 1);
      return;
    }
    for (std::size_t type = 0; type < profile_.sample_types().size(); ++type) {
      write_profile(scope_profiles, type);
    }
  }

  void write_profile(pbf_writer& scope_profiles, std::size_t type) {
    namespace field = otlp::profile;
    pbf_writer message(scope_profiles, otlp::scope_profiles::kProfile);
    write_value_type(message, field::kSampleType, profile_.sample_types()[type]);
    for (std::uint32_t i = 0; i < profile_.samples().size(); ++i) write_sample(message, i, type);
    message.add_fixed64(field::kTimeNs, static_cast<std::uint64_t>(profile_.time_ns));
    message.add_uint64(field::kDurationNs, static_cast<std::uint64_t>(profile_.duration_ns));
    if (has_times_of_blocks(profile_)) return;
    write_value_type(message, field::kPeriodType, profile_.period_type);
    message.add_int64(field::kPeriod, profile_.period);
  }

  // `fill` writes the fields of the entry.
  template <class Fill>
  void add_entry(pbf_writer& parent, std::uint32_t field, const Fill& fill) {
    entry_.clear();
    pbf_writer entry(entry_);
    fill(entry);
    parent.add_message(field, entry_);
  }

  void write_value_type(pbf_writer& message, std::uint32_t field, const PprofValueType& type) {
    add_entry(message, field, [&](pbf_writer& entry) {
      add_index(entry, otlp::value_type::kType, index_of(profile_.add_text(type.type)));
      add_index(entry, otlp::value_type::kUnit, index_of(profile_.add_text(type.unit)));
    });
  }

  void write_sample(pbf_writer& message, std::uint32_t place, std::size_t type) {
    const std::int64_t value = profile_.values(place)[type];
    if (value == 0) return;
    const PprofSample& sample = profile_.samples()[place];
    const std::vector<std::int32_t> attributes = attributes_of(sample.labels);
    add_entry(message, otlp::profile::kSample, [&](pbf_writer& entry) {
      entry.add_int32(otlp::sample::kStack, entry_of(sample.stack));
      entry.add_packed_int32(otlp::sample::kAttributes, attributes.begin(), attributes.end());
      entry.add_packed_int64(otlp::sample::kValues, &value, &value + 1);
    });
  }

  std::vector<std::int32_t> attributes_of(std::uint32_t label_set) {
    std::vector<std::int32_t> attributes;
    const auto labels = profile_.labels(label_set);
    attributes.reserve(labels.size());
    for (const PprofLabel& label : labels) {
      if (profile_.text(label.key) == "thread" && label.text != 0) {
        attributes.push_back(attribute(thread_name_key_, label.text));
      }
    }
    return attributes;
  }

  // Its entry in the table, of texts.
  std::int32_t attribute(std::uint32_t key, std::uint32_t text) {
    const auto [known, is_new] =
        places_.try_emplace(std::pair(key, text), static_cast<std::uint32_t>(attributes_.size()));
    if (is_new) attributes_.emplace_back(key, text);
    return entry_of(known->second);
  }

  void write_dictionary(pbf_writer& dictionary) {
    namespace field = otlp::dictionary;
    for (const std::uint32_t table :
         {field::kMapping, field::kLocation, field::kFunction, field::kAttribute, field::kStack}) {
      dictionary.add_message(table, std::string());
    }
    write_no_link(dictionary);
    for (const PprofMapping& mapping : profile_.mappings()) write_mapping(dictionary, mapping);
    for (const PprofLocation& location : profile_.locations()) {
      write_location(dictionary, location);
    }
    for (const PprofFunction& function : profile_.functions()) {
      write_function(dictionary, function);
    }
    write_stacks(dictionary);
    for (const auto& [key, text] : attributes_) write_attribute(dictionary, key, text);
    for (std::uint32_t i = 0; i < profile_.text_count(); ++i) {
      const std::string_view text = profile_.text(i);
      dictionary.add_string(field::kText, text.data(), text.size());
    }
  }

  // Of zeros, as profiles.proto wants the first link: some decoders take no ids of other lengths.
  void write_no_link(pbf_writer& dictionary) {
    constexpr std::size_t kTraceIdBytes = 16;
    constexpr std::size_t kSpanIdBytes = 8;
    add_entry(dictionary, otlp::dictionary::kLink, [](pbf_writer& entry) {
      entry.add_bytes(otlp::link::kTraceId, std::string(kTraceIdBytes, '\0'));
      entry.add_bytes(otlp::link::kSpanId, std::string(kSpanIdBytes, '\0'));
    });
  }

  void write_mapping(pbf_writer& dictionary, const PprofMapping& mapping) {
    namespace field = otlp::mapping;
    add_entry(dictionary, otlp::dictionary::kMapping, [&](pbf_writer& entry) {
      entry.add_uint64(field::kStart, mapping.start);
      entry.add_uint64(field::kLimit, mapping.limit);
      entry.add_uint64(field::kFileOffset, mapping.file_offset);
      add_index(entry, field::kFile, index_of(mapping.file));
      if (mapping.build_id == 0) return;
      const std::array attributes{attribute(build_id_key_, mapping.build_id)};
      entry.add_packed_int32(field::kAttributes, attributes.begin(), attributes.end());
    });
  }

  void write_location(pbf_writer& dictionary, const PprofLocation& location) {
    namespace field = otlp::location;
    add_entry(dictionary, otlp::dictionary::kLocation, [&](pbf_writer& entry) {
      if (location.mapping != PprofLocation::kNoMapping) {
        entry.add_int32(field::kMapping, entry_of(location.mapping));
      }
      entry.add_uint64(field::kAddress, location.address);
      for (const PprofLine& line : profile_.lines(location.lines)) {
        pbf_writer part(entry, field::kLine);
        part.add_int32(otlp::line::kFunction, entry_of(line.function));
        part.add_int64(otlp::line::kLine, line.line);
      }
    });
  }

  void write_function(pbf_writer& dictionary, const PprofFunction& function) {
    namespace field = otlp::function;
    add_entry(dictionary, otlp::dictionary::kFunction, [&function](pbf_writer& entry) {
      add_index(entry, field::kName, index_of(function.name));
      add_index(entry, field::kSystemName, index_of(function.system_name));
      add_index(entry, field::kFile, index_of(function.file));
      entry.add_int64(field::kStartLine, function.start_line);
    });
  }

  void write_stacks(pbf_writer& dictionary) {
    std::vector<std::int32_t> locations;
    for (std::uint32_t i = 0; i < profile_.stack_count(); ++i) {
      locations.clear();
      for (const std::uint32_t location : profile_.stack(i)) {
        locations.push_back(entry_of(location));
      }
      add_entry(dictionary, otlp::dictionary::kStack, [&locations](pbf_writer& entry) {
        entry.add_packed_int32(otlp::stack::kLocations, locations.begin(), locations.end());
      });
    }
  }

  void write_attribute(pbf_writer& dictionary, std::uint32_t key, std::uint32_t text) {
    add_entry(dictionary, otlp::dictionary::kAttribute, [&](pbf_writer& entry) {
      entry.add_int32(otlp::attribute::kKey, index_of(key));
      write_text_value(entry, otlp::attribute::kValue, profile_.text(text));
    });
  }

  PprofProfile profile_;
  std::string bytes_;
  std::string entry_;  // that is being encoded
  // Of keys and values, each a text of the profile.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> attributes_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> places_;
  std::uint32_t thread_name_key_ = profile_.add_text("thread.name");
  std::uint32_t build_id_key_ = profile_.add_text("process.executable.build_id.gnu");
};

PushOutcome outcome_of(const OtlpRejection& rejection) {
  return {.kind = PushOutcome::Kind::kRefused,
          .retry_after = std::nullopt,
          .error = invalid_argument("the endpoint rejected " + std::to_string(rejection.profiles) +
                                    " profiles of a request: " + log_text(rejection.message))};
}

// JSON says nothing of rejections that is read.
bool is_protobuf_answer(const PushReply& reply) {
  return reply.content_type.starts_with(kOtlpAnswers.protobuf_type);
}

PushOutcome malformed_answer() {
  return {.kind = PushOutcome::Kind::kUnknown,
          .retry_after = std::nullopt,
          .error = malformed("the endpoint answered 200 with a malformed or cut body, so it is not "
                             "known whether it stored the profile")};
}

class Otlp final : public Engine {
 public:
  explicit Otlp(std::string tenant) : tenant_(std::move(tenant)) {}

  [[nodiscard]] const EngineTraits& traits() const override { return kOtlp; }
  [[nodiscard]] Result<void> check_labels(const SeriesLabels& labels) const override {
    for (const auto& [name, value] : labels) {
      if (name.empty() || !is_valid_utf8(name) || !is_valid_utf8(value)) {
        return invalid_argument("a label of a series has no name or is no UTF-8", kLabelHint);
      }
    }
    return {};
  }
  [[nodiscard]] std::string encode(const SeriesLabels& labels,
                                   PprofProfile profile) const override {
    return encode_otlp_request(labels, std::move(profile));
  }
  [[nodiscard]] PushMessage profile_request(const SeriesLabels& /*labels*/,
                                            std::string_view encoded) const override {
    return otlp_message(encoded);
  }
  [[nodiscard]] PushMessage empty_request() const override { return otlp_message({}); }
  [[nodiscard]] PushOutcome classify(const PushReply& reply) const override {
    PushOutcome outcome = profd::classify(reply, kOtlpAnswers);
    if (outcome.kind != PushOutcome::Kind::kStored) return outcome;
    const OtlpRejection rejection = read_otlp_rejection(reply.body);
    if (rejection.profiles > 0) return outcome_of(rejection);
    return rejection.is_malformed && is_protobuf_answer(reply) ? malformed_answer() : outcome;
  }

 private:
  [[nodiscard]] PushMessage otlp_message(std::string_view request) const {
    PushMessage message{.path = "/v1development/profiles",
                        .content_type = "application/x-protobuf",
                        .headers = {{"Content-Encoding", "gzip"}},
                        .body = pack_gzip(request, kOtlpGzipLevel)};
    if (!tenant_.empty()) message.headers.emplace_back("X-Scope-OrgID", tenant_);
    return message;
  }

  std::string tenant_;
};

void read_partial_success(protozero::pbf_reader message, OtlpRejection& rejection) {
  namespace field = otlp::partial_success;
  using Wire = protozero::pbf_wire_type;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case protozero::tag_and_type(field::kRejected, Wire::varint):
        rejection.profiles = message.get_int64();
        break;
      case protozero::tag_and_type(field::kMessage, Wire::length_delimited):
        rejection.message = message.get_string();
        break;
      default:
        message.skip();
    }
  }
}

// The message that `reader` is at, or what there is of one that was cut.
protozero::pbf_reader beginning_of_message(const protozero::pbf_reader& reader) {
  const char* begin = reader.data().data();
  const char* const end = begin + reader.data().size();
  const std::uint64_t length = protozero::decode_varint(&begin, end);
  const auto rest = static_cast<std::size_t>(end - begin);
  return {begin, static_cast<std::size_t>(std::min<std::uint64_t>(length, rest))};
}

}  // namespace

std::string encode_otlp_request(const SeriesLabels& labels, PprofProfile profile) {
  return OtlpRequest(std::move(profile)).encode(labels);
}

OtlpRejection read_otlp_rejection(std::string_view answer) {
  OtlpRejection rejection;
  try {
    protozero::pbf_reader response(answer.data(), answer.size());
    while (response.next(otlp::response::kPartialSuccess,
                         protozero::pbf_wire_type::length_delimited)) {
      read_partial_success(beginning_of_message(response), rejection);
      response.skip();
    }
  } catch (const protozero::exception&) {
    rejection.is_malformed = true;
  }
  return rejection;
}

std::unique_ptr<Engine> make_otlp_engine(std::string tenant) {
  return std::make_unique<Otlp>(std::move(tenant));
}

}  // namespace profd
