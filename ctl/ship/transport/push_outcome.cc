#include "ctl/ship/transport/push_outcome.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <boost/json/object.hpp>
#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>

#include "formats/base/errors.h"
#include "formats/base/json_text.h"
#include "formats/base/log_text.h"

namespace profd {
namespace {

using Kind = PushOutcome::Kind;

constexpr const char* kRefusalHint =
    "change a label that it names by a [[service]] rule of ship.toml; raise a limit that it names "
    "in the engine";

constexpr const char* kServerHint = "the log of the endpoint may say why; profctl ship tries again";

bool is_json(const PushReply& reply) { return reply.content_type.starts_with("application/json"); }

bool is_html_page(const PushReply& reply) { return reply.content_type.starts_with("text/html"); }

bool is_protobuf(const PushReply& reply) {
  return reply.content_type.starts_with("application/x-protobuf");
}

// The message of a google.rpc.Status, "" without one.
std::string message_of_status(std::string_view bytes) {
  constexpr std::uint32_t kMessage = 2;
  try {
    protozero::pbf_reader status(bytes.data(), bytes.size());
    while (status.next()) {
      if (status.tag_and_type() ==
          protozero::tag_and_type(kMessage, protozero::pbf_wire_type::length_delimited)) {
        return status.get_string();
      }
      status.skip();
    }
  } catch (const protozero::exception&) {  // cut, or something else
  }
  return {};
}

// The message of an answer in JSON or protobuf; of another one, its beginning. A page says no more
// than its status.
std::string message_of(const PushReply& reply) {
  if (is_html_page(reply)) return {};
  if (is_protobuf(reply)) return log_text(message_of_status(reply.body));
  const auto value = parse_json(reply.body, 8);
  if (is_json(reply) && value && value->is_object()) {
    const auto* const message = value->as_object().if_contains("message");
    if (message != nullptr && message->is_string()) {
      return log_text(std::string_view(message->as_string().data(), message->as_string().size()));
    }
  }
  return log_text(reply.body);
}

Error answer_error(ErrorCode code, const PushReply& reply, const std::string& hint = {}) {
  const std::string message = message_of(reply);
  return fail(code,
              "the endpoint answered " + std::to_string(reply.status) +
                  (message.empty() ? "" : ": " + message),
              hint);
}

PushOutcome wrong_place(const std::string& what, const std::string& hint) {
  return {.kind = Kind::kLater,
          .retry_after = std::nullopt,
          .error = fail(ErrorCode::kUnsupported, what, hint)};
}

std::string url_hint(const EngineAnswers& engine) {
  return "check the url of the endpoint: profctl ship adds /" + std::string(engine.method) +
         " to it";
}

PushOutcome page_instead_of(const PushReply& reply, const EngineAnswers& engine) {
  return wrong_place("the endpoint answered " + std::to_string(reply.status) +
                         " with a page, so it is no " + std::string(engine.engine),
                     url_hint(engine));
}

PushOutcome unknown_method(const PushReply& reply, const EngineAnswers& engine) {
  return wrong_place("the endpoint answered " + std::to_string(reply.status) +
                         ": it does not know " + std::string(engine.method),
                     url_hint(engine));
}

PushOutcome redirect(const PushReply& reply, const EngineAnswers& engine) {
  const std::string place = reply.location.empty() ? "another place" : log_text(reply.location);
  return wrong_place(
      "the endpoint answered " + std::to_string(reply.status) + ": it redirects to " + place +
          ", and redirects are not followed",
      "let the url of the endpoint name the target, without /" + std::string(engine.method));
}

// Pyroscope answers 429 for a message over a limit too. gRPC says then: "received message larger
// than max", and Connect: "message size 5 is larger than configured max 4".
bool is_over_size_limit(const Error& error) {
  const auto says = [&error](std::string_view text) {
    return error.message.find(text) != std::string::npos;
  };
  return says("larger than") || says("too large");
}

PushOutcome rate_outcome(const PushReply& reply) {
  PushOutcome outcome{
      .kind = Kind::kTooLarge,
      .retry_after = parse_retry_after(reply.retry_after).value_or(std::chrono::seconds(1)),
      .error = answer_error(ErrorCode::kBusy, reply, "raise the limits of the tenant")};
  if (is_over_size_limit(outcome.error)) outcome.error.code = ErrorCode::kTooLarge;
  return outcome;
}

// Pyroscope's handler of OTLP answers 500 for all errors, also for "push rate limit (4.0 MiB)
// exceeded while adding 1.0 MiB" (its pkg/distributor). Names of other users may be in a message,
// so the tries have a bound.
std::optional<PushOutcome> rate_outcome_of_500(const PushReply& reply,
                                               const EngineAnswers& engine) {
  if (reply.status != 500 || !engine.refuses_with_500) return std::nullopt;
  PushOutcome outcome = rate_outcome(reply);
  const std::string& message = outcome.error.message;
  const std::size_t limit = message.find("rate limit");
  if (limit == std::string::npos || message.find("exceeded", limit) == std::string::npos) {
    return std::nullopt;
  }
  outcome.most_tries = kMostRateTries;
  return outcome;
}

// Whether the engine answers so where it has stored a request. The body may be cut. An answer
// without content counts, whatever its type: what is stored must not be sent again.
bool is_answer_of_engine(const PushReply& reply, const EngineAnswers& engine) {
  const bool is_typed = !engine.protobuf_type.empty();
  if (is_typed && reply.content_type.starts_with(engine.protobuf_type)) return true;
  std::string_view body = reply.body;
  body = body.substr(0, body.find_last_not_of(" \t\r\n") + 1);
  if (body.empty()) return true;
  return engine.has_members ? body.front() == '{' : std::string_view("{}").starts_with(body);
}

PushOutcome wrong_server(const PushReply& reply, const EngineAnswers& engine) {
  const std::string type =
      reply.content_type.empty() ? "no content type" : log_text(reply.content_type);
  const std::string body = log_text(reply.body);
  return wrong_place("the endpoint is no " + std::string(engine.engine) + ": it answered " +
                         std::to_string(reply.status) + " with " + type +
                         (body.empty() ? "" : ": " + body),
                     url_hint(engine));
}

PushOutcome classify_error(const PushReply& reply, const EngineAnswers& engine) {
  PushOutcome outcome;
  switch (reply.status) {
    case 401:
    case 403:
      outcome.error = answer_error(ErrorCode::kPermissionDenied, reply,
                                   "check the tenant and the credentials of the endpoint");
      return outcome;
    case 407:
      outcome.error = answer_error(ErrorCode::kPermissionDenied, reply,
                                   "give the user and password of the proxy in http_proxy");
      return outcome;
    case 408:
    case 425:
      outcome.error = answer_error(ErrorCode::kUnavailable, reply);
      return outcome;
    case 413:
      outcome.kind = Kind::kTooLarge;
      outcome.error = answer_error(ErrorCode::kTooLarge, reply);
      return outcome;
    case 429:
      return rate_outcome(reply);
    // A gateway has lost the engine's answer or never had the engine (502), waits no longer for it
    // (504), or was left by its own client (499): the engine may have stored the request.
    case 499:
    case 502:
    case 504:
      outcome.kind = Kind::kUnknown;
      outcome.error =
          answer_error(reply.status == 502 ? ErrorCode::kUnavailable : ErrorCode::kTimeout, reply,
                       "check the engine behind the gateway");
      return outcome;
    case 503:
      outcome.error = answer_error(ErrorCode::kUnavailable, reply, kServerHint);
      outcome.retry_after = parse_retry_after(reply.retry_after);
      return outcome;
    case 404:
    case 405:
    case 415:
    case 501:
      return unknown_method(reply, engine);
    default:
      break;
  }
  // nginx and squid answer with a page where they refuse a request, too: so those statuses, which
  // say what is to be done, come first.
  if (is_html_page(reply) && reply.status / 100 == 4) return page_instead_of(reply, engine);
  const bool is_refusal =
      reply.status / 100 == 4 || (reply.status == 500 && engine.refuses_with_500);
  if (is_refusal) {
    outcome.kind = Kind::kRefused;
    outcome.error = answer_error(ErrorCode::kInvalidArgument, reply, kRefusalHint);
  } else {
    outcome.error = answer_error(ErrorCode::kUnavailable, reply, kServerHint);
  }
  return outcome;
}

}  // namespace

PushOutcome classify(const PushReply& reply, const EngineAnswers& engine) {
  if (reply.reached == PushReply::Reached::kNotSent) {
    return {.kind = Kind::kLater, .retry_after = std::nullopt, .error = reply.error};
  }
  if (reply.reached == PushReply::Reached::kNoAnswer) {
    return {.kind = Kind::kUnknown, .retry_after = std::nullopt, .error = reply.error};
  }
  if (reply.status / 100 == 3) return redirect(reply, engine);
  if (auto rate = rate_outcome_of_500(reply, engine)) return std::move(*rate);
  if (reply.status / 100 != 2) return classify_error(reply, engine);
  // Of a proxy, or of another server.
  if (is_html_page(reply)) return page_instead_of(reply, engine);
  if (reply.status != 200 || !is_answer_of_engine(reply, engine)) {
    return wrong_server(reply, engine);
  }
  return {.kind = Kind::kStored, .retry_after = std::nullopt, .error = {}};
}

std::optional<std::chrono::seconds> parse_retry_after(std::string_view text) {
  constexpr unsigned kMost = 600;
  unsigned seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return std::chrono::seconds(std::min(seconds, kMost));
}

std::chrono::milliseconds backoff(unsigned failures, double random) {
  constexpr double kFirst = 500;
  constexpr double kMost = 300'000;
  const double longest =
      std::min(kMost, kFirst * static_cast<double>(1U << std::min(failures, 16U)));
  return std::chrono::milliseconds(static_cast<std::int64_t>(longest * random) + 1);
}

}  // namespace profd
