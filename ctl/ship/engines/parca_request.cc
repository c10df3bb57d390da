#include "ctl/ship/engines/parca_request.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "ctl/ship/engines/engine.h"
#include "formats/base/base64.h"
#include "formats/base/errors.h"
#include "formats/base/gzip.h"
#include "formats/base/json_text.h"
#include "formats/base/utf8_text.h"
#include "formats/profile/pprof_writer.h"

namespace profd {
namespace {

constexpr int kParcaGzipLevel = 6;
constexpr const char* kNodeLabel = "node";

constexpr EngineTraits kParca{.kind = "parca",
                              // The gateway reads for 5 s, and each stack becomes a row. Parca has
                              // no limit of its own below 64 MiB.
                              .max_profile_bytes = std::size_t{1} << 20,
                              .max_samples = 8000,
                              // Parca takes any time. The history has two days of windows.
                              .max_age = std::chrono::hours(47),
                              .max_future = std::chrono::minutes(9),
                              .bytes_per_second = 3e6,
                              .threads = ThreadLabels::kDropped};

constexpr EngineAnswers kParcaAnswers{
    .engine = "Parca", .method = "api/profiles/writeraw", .protobuf_type = ""};

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

bool is_prometheus_name(std::string_view name) {
  return !name.empty() && !is_ascii_digit(name.front()) && std::ranges::all_of(name, [](char c) {
    return is_ascii_letter(c) || is_ascii_digit(c) || c == '_';
  });
}

boost::json::object label_pair(const std::string& name, const std::string& value) {
  boost::json::object pair;
  pair.emplace("name", name);
  pair.emplace("value", value);
  return pair;
}

PushMessage parca_message(std::string body) {
  return {.path = "/api/profiles/writeraw",
          .content_type = "application/json",
          .headers = {},
          .body = std::move(body)};
}

class Parca final : public Engine {
 public:
  [[nodiscard]] const EngineTraits& traits() const override { return kParca; }
  [[nodiscard]] Result<void> check_labels(const SeriesLabels& labels) const override {
    return check_parca_labels(labels);
  }
  [[nodiscard]] std::string encode(const SeriesLabels& /*labels*/,
                                   PprofProfile profile) const override {
    return encode_pprof(profile);
  }
  [[nodiscard]] PushMessage profile_request(const SeriesLabels& labels,
                                            std::string_view encoded) const override {
    return parca_message(encode_write_raw(labels, pack_gzip(encoded, kParcaGzipLevel)));
  }
  [[nodiscard]] PushMessage empty_request() const override {
    return parca_message(R"({"series":[]})");
  }
  [[nodiscard]] PushOutcome classify(const PushReply& reply) const override {
    return profd::classify(reply, kParcaAnswers);
  }
};

}  // namespace

Result<void> check_parca_labels(const SeriesLabels& labels) {
  if (!labels.contains("__name__")) return invalid_argument("a series has no label __name__");
  for (const auto& [name, value] : labels) {
    if (!is_prometheus_name(name)) {
      return invalid_argument("a label of a series has a name that Prometheus does not have",
                              "a name has letters, digits and _, and begins with no digit");
    }
    if (!is_valid_utf8(value)) {
      return invalid_argument("the label " + name + " of a series is no UTF-8", kLabelHint);
    }
  }
  return {};
}

std::string encode_write_raw(const SeriesLabels& labels, std::string_view profile) {
  boost::json::array pairs;
  pairs.reserve(labels.size() + 1);
  for (const auto& [name, value] : labels) pairs.push_back(label_pair(name, value));
  const auto host = labels.find("host");
  if (host != labels.end() && !labels.contains(kNodeLabel)) {
    pairs.push_back(label_pair(kNodeLabel, host->second));
  }
  return R"({"series":[{"labels":{"labels":)" + json_text(pairs) +
         R"(},"samples":[{"rawProfile":")" + base64_text(profile) + R"("}]}],"normalized":true})";
}

std::unique_ptr<Engine> make_parca_engine() { return std::make_unique<Parca>(); }

}  // namespace profd
