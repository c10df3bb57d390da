#include "ctl/ship/engines/push_request.h"

#include <cstdint>
#include <memory>
#include <utility>

#include <boost/uuid/random_generator.hpp>
#include <boost/uuid/uuid.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <protozero/pbf_writer.hpp>

#include "ctl/ship/engines/engine.h"
#include "formats/base/errors.h"
#include "formats/base/gzip.h"
#include "formats/base/utf8_text.h"
#include "formats/profile/pprof_writer.h"

namespace profd {
namespace {

constexpr std::size_t kMaxLabels = 30;
constexpr std::size_t kMaxLabelNameBytes = 1024;
constexpr std::size_t kMaxLabelBytes = 2048;

constexpr EngineTraits kPyroscope{
    .kind = "pyroscope",
    // A quarter of 4 MiB, since the rate of a tenant has a burst of 2 MB.
    .max_profile_bytes = std::size_t{1} << 20,
    .max_samples = 8000,  // half of 16,000
    // Of a deeper stack, Pyroscope keeps the outermost frames (ValidateProfile() of its
    // pkg/validation), so that the self time goes to another function.
    .max_depth = 1000,
    // Of an hour, and of ten minutes, with room for the way.
    .max_age = std::chrono::minutes(55),
    .max_future = std::chrono::minutes(9),
    // Of 4 MB a second for all hosts of a tenant; this host takes no more.
    .bytes_per_second = 3e6,
    // Of PushBatch() in its distributor.go, after it has checked the tenant.
    .empty_refusal = "no profiles received"};

// Of gzip. The series of a window of a minute, 0.8 MB, become 367 kB in 8 ms; 348 kB in 13 ms by
// level 6.
constexpr int kWireLevel = 1;

namespace request {
constexpr std::uint32_t kSeries = 1;
constexpr std::uint32_t kLabels = 1;
constexpr std::uint32_t kSamples = 2;
constexpr std::uint32_t kName = 1;
constexpr std::uint32_t kValue = 2;
constexpr std::uint32_t kRawProfile = 1;
constexpr std::uint32_t kId = 2;
}  // namespace request

void write_pair(protozero::pbf_writer& series, std::string_view name, std::string_view value) {
  protozero::pbf_writer pair(series, request::kLabels);
  pair.add_string(request::kName, name.data(), name.size());
  pair.add_string(request::kValue, value.data(), value.size());
}

class Pyroscope final : public Engine {
 public:
  explicit Pyroscope(std::string tenant) : tenant_(std::move(tenant)) {}

  [[nodiscard]] const EngineTraits& traits() const override { return kPyroscope; }
  [[nodiscard]] Result<void> check_labels(const SeriesLabels& labels) const override {
    return profd::check_labels(labels);
  }
  [[nodiscard]] std::string encode(const SeriesLabels& /*labels*/,
                                   PprofProfile profile) const override {
    return encode_pprof(profile);
  }
  [[nodiscard]] PushMessage profile_request(const SeriesLabels& labels,
                                            std::string_view encoded) const override {
    return pyroscope_message(tenant_, encode_push_request(labels, encoded, make_uuid()));
  }
  [[nodiscard]] PushMessage empty_request() const override {
    return pyroscope_message(tenant_, {});
  }
  [[nodiscard]] PushOutcome classify(const PushReply& reply) const override {
    return profd::classify(reply);
  }

 private:
  std::string tenant_;
};

}  // namespace

Result<void> check_labels(const SeriesLabels& labels) {
  if (labels.size() > kMaxLabels) {
    return invalid_argument("a series has more than " + std::to_string(kMaxLabels) + " labels",
                            "give fewer labels in the [[service]] rules of ship.toml");
  }
  for (const auto& [name, value] : labels) {
    if (name.empty() || name.size() > kMaxLabelNameBytes || !is_valid_utf8(name)) {
      return invalid_argument("a label of a series has an invalid name", kLabelHint);
    }
    if (value.size() > kMaxLabelBytes || !is_valid_utf8(value)) {
      return invalid_argument("the label " + name + " of a series is too long or no UTF-8",
                              kLabelHint);
    }
  }
  return {};
}

std::string encode_push_request(const SeriesLabels& labels, std::string_view profile,
                                std::string_view id) {
  std::string bytes;
  bytes.reserve(profile.size() + 4096);
  protozero::pbf_writer push(bytes);
  {
    protozero::pbf_writer series(push, request::kSeries);
    for (const auto& [name, value] : labels) write_pair(series, name, value);
    protozero::pbf_writer sample(series, request::kSamples);
    sample.add_bytes(request::kRawProfile, profile.data(), profile.size());
    sample.add_string(request::kId, id.data(), id.size());
  }
  return bytes;
}

PushMessage pyroscope_message(const std::string& tenant, std::string_view body) {
  PushMessage message;
  message.path = "/push.v1.PusherService/Push";
  message.content_type = "application/proto";
  message.headers = {{"Connect-Protocol-Version", "1"}, {"Content-Encoding", "gzip"}};
  if (!tenant.empty()) message.headers.emplace_back("X-Scope-OrgID", tenant);
  message.body = pack_gzip(body, kWireLevel);
  return message;
}

std::string make_uuid() { return boost::uuids::to_string(boost::uuids::random_generator()()); }

std::unique_ptr<Engine> make_pyroscope_engine(std::string tenant) {
  return std::make_unique<Pyroscope>(std::move(tenant));
}

}  // namespace profd
