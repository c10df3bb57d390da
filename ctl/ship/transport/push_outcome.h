// What became of a request to an engine, and what is to be done next.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

// As the HTTP client saw it.
struct PushReply {
  enum class Reached : std::uint8_t {
    kNotSent,   // the engine can't have the whole request
    kNoAnswer,  // it may have it, and there is no whole answer
    kAnswered,
  };
  Reached reached = Reached::kNotSent;
  Error error;  // where there is no answer
  unsigned status = 0;
  std::string content_type;
  std::string retry_after;  // the header
  std::string location;     // the same
  std::string body;         // its beginning
};

struct PushOutcome {
  enum class Kind : std::uint8_t {
    kStored,
    kUnknown,   // may be stored: is not sent again, since engines keep both
    kRefused,   // will never be stored
    kTooLarge,  // may be stored in two halves: the error is kTooLarge, or kBusy for a rate
    kLater,     // this request again, after a pause
  };
  Kind kind = Kind::kLater;
  std::optional<std::chrono::seconds> retry_after;  // the shortest pause
  Error error;                                      // unless stored
  // So many such answers to one request are a refusal; 0: any number means that it may be stored.
  unsigned most_tries = 0;
};

// Of an endpoint that says by a status which is final that its rate was exceeded. With the pauses
// of backoff(), they take half an hour.
inline constexpr unsigned kMostRateTries = 20;

// What an engine's answers have of their own.
struct EngineAnswers {
  std::string_view engine = "Pyroscope";                   // for errors
  std::string_view method = "push.v1.PusherService/Push";  // likewise
  // Such a profile will never be stored, unless the message says that a rate was exceeded.
  bool refuses_with_500 = false;
  // The type of its answers, which may be JSON too; "": they are always JSON.
  std::string_view protobuf_type = "application/proto";
  // The JSON with 200; otherwise it is "{}".
  bool has_members = false;
};

// Engines keep what they get twice, so what may be stored is not sent again. 502 and 504 are of a
// gateway (RFC 9110, 15.6.3 and 15.6.5), whose engine may be down, and may have stored the profile
// too: kUnknown. 503 says that the request was not handled (15.6.4): kLater. That is not certain: a
// gateway may answer 503 too where its engine resets the connection after it has got the request
// (Envoy does), and the engine then may have the profile twice. The same holds for 500, where it
// fails after it has stored the profile, and for 408 and 425 of a gateway.
//
// Many servers answer 200 to any request. So a request is stored where the answer has a type and a
// body that this engine gives; otherwise it is sent again when the url is mended.
//
// Errors are JSON with a message (Connect: connectrpc.com/docs/protocol; grpc-gateway), or a
// google.rpc.Status in protobuf (OTLP), or any text.
[[nodiscard]] PushOutcome classify(const PushReply& reply, const EngineAnswers& engine = {});

// Of a Retry-After header, which is honoured with 429 and 503: seconds; a date is not understood.
// At most ten minutes, so that an endpoint can't stop what is sent to it.
[[nodiscard]] std::optional<std::chrono::seconds> parse_retry_after(std::string_view text);

// The pause before try `failures` + 1: a random part (`random` in [0, 1)) of 0.5 s that doubles
// with each failure up to 5 minutes, so that hosts do not come back at once.
[[nodiscard]] std::chrono::milliseconds backoff(unsigned failures, double random);

}  // namespace profd
