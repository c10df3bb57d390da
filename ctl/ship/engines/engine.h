// An engine that stores profiles: what differs between Pyroscope, Parca and the receivers of OTLP.
//
// A request has one series with one profile, since engines take a request with several in part.
// Any thread; each object is used by one.

#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "ctl/ship/transport/push_client.h"
#include "ctl/ship/transport/push_outcome.h"
#include "ctl/ship/windows/window_split.h"
#include "formats/base/result.h"
#include "formats/profile/pprof_profile.h"

namespace profd {

// What the engine takes. A larger profile is sent in two halves, and a deeper stack without its
// outermost frames.
struct EngineTraits {
  std::string_view kind;              // its table in the configuration
  std::size_t max_profile_bytes = 0;  // of encode()
  std::size_t max_samples = 0;
  // Frames of a stack.
  std::size_t max_depth = std::numeric_limits<std::size_t>::max();
  std::chrono::minutes max_age{};     // of a window
  std::chrono::minutes max_future{};  // that a window lies in
  double bytes_per_second = 0;        // that one host sends, not packed
  ThreadLabels threads = ThreadLabels::kKept;
  // What the message has with which it may refuse empty_request(), by the status 400. "": it takes
  // that.
  std::string_view empty_refusal{};
};

// Of the errors of check_labels().
inline constexpr const char* kLabelHint =
    "change it by a [[service]] rule of ship.toml, or by host there";

class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  [[nodiscard]] virtual const EngineTraits& traits() const = 0;
  // kInvalidArgument: the engine would refuse a series with these labels.
  [[nodiscard]] virtual Result<void> check_labels(const SeriesLabels& labels) const = 0;
  // The profile as the engine's limits count it: not packed. Its samples have no labels but
  // "thread".
  [[nodiscard]] virtual std::string encode(const SeriesLabels& labels,
                                           PprofProfile profile) const = 0;
  // Stores what encode() has made for these labels.
  [[nodiscard]] virtual PushMessage profile_request(const SeriesLabels& labels,
                                                    std::string_view encoded) const = 0;
  // Stores nothing: what comes back says whether the engine is there and takes the credentials.
  [[nodiscard]] virtual PushMessage empty_request() const = 0;
  [[nodiscard]] virtual PushOutcome classify(const PushReply& reply) const = 0;
};

// push_request.h, parca_request.h and otlp_request.h have what they send. `tenant`: for the header
// X-Scope-OrgID; "": none.
[[nodiscard]] std::unique_ptr<Engine> make_pyroscope_engine(std::string tenant);
[[nodiscard]] std::unique_ptr<Engine> make_parca_engine();
[[nodiscard]] std::unique_ptr<Engine> make_otlp_engine(std::string tenant);

}  // namespace profd
