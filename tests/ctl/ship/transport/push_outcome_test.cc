#include "ctl/ship/transport/push_outcome.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace profd {
namespace {

using Kind = PushOutcome::Kind;
using testing::HasSubstr;
using testing::Not;
using testing::Optional;

PushReply answer_of(unsigned status, const std::string& type = "application/json",
                    const std::string& body = R"({"code":"x","message":"why"})") {
  PushReply reply;
  reply.reached = PushReply::Reached::kAnswered;
  reply.status = status;
  reply.content_type = type;
  reply.body = body;
  return reply;
}

TEST(PushOutcomeTest, EachStatusHasItsConsequence) {
  struct Case {
    unsigned status;
    Kind kind;
  };
  // 499, 502 and 504: a gateway has no answer of an engine that may have stored the request.
  for (const Case& one : std::vector<Case>{{204, Kind::kLater},
                                           {302, Kind::kLater},
                                           {400, Kind::kRefused},
                                           {401, Kind::kLater},
                                           {403, Kind::kLater},
                                           {404, Kind::kLater},
                                           {407, Kind::kLater},
                                           {408, Kind::kLater},
                                           {413, Kind::kTooLarge},
                                           {422, Kind::kRefused},
                                           {429, Kind::kTooLarge},
                                           {499, Kind::kUnknown},
                                           {500, Kind::kLater},
                                           {501, Kind::kLater},
                                           {502, Kind::kUnknown},
                                           {503, Kind::kLater},
                                           {504, Kind::kUnknown}}) {
    EXPECT_EQ(classify(answer_of(one.status)).kind, one.kind) << one.status;
  }
}

// Fails where any 200 counts as stored: each window would be lost, and counted as sent.
TEST(PushOutcomeTest, OnlyAnAnswerOfTheEngineSaysThatAProfileIsStored) {
  constexpr EngineAnswers kPyroscope{};
  constexpr EngineAnswers kJsonAlone{.engine = "Parca", .method = "m", .protobuf_type = ""};
  constexpr EngineAnswers kWithMembers{
      .engine = "receiver", .method = "m", .protobuf_type = "application/x", .has_members = true};
  struct Case {
    const EngineAnswers* engine;
    const char* type;
    const char* body;
    Kind kind;
  };
  for (const Case& one : std::vector<Case>{
           {&kPyroscope, "application/proto", "", Kind::kStored},
           {&kPyroscope, "application/json", "{}", Kind::kStored},
           {&kPyroscope, "application/json; charset=utf-8", "{}\n", Kind::kStored},
           {&kPyroscope, "application/json", "{", Kind::kStored},  // cut
           {&kPyroscope, "application/json", R"({"status":"up"})", Kind::kLater},
           {&kPyroscope, "application/json", "[]", Kind::kLater},
           {&kPyroscope, "text/plain", "OK", Kind::kLater},
           {&kPyroscope, "", "", Kind::kStored},
           {&kPyroscope, "text/plain", "{}", Kind::kStored},
           {&kPyroscope, "application/x-protobuf", "\x08\x01", Kind::kLater},
           {&kJsonAlone, "application/json", "{}", Kind::kStored},
           {&kJsonAlone, "application/proto", "\x08\x01", Kind::kLater},
           {&kJsonAlone, "", "", Kind::kStored},
           {&kWithMembers, "application/x", "", Kind::kStored},
           {&kWithMembers, "application/json", R"({"partialSuccess":{}})", Kind::kStored},
           {&kWithMembers, "application/json", "[]", Kind::kLater},
           {&kWithMembers, "text/plain", "OK", Kind::kLater}}) {
    const PushOutcome outcome = classify(answer_of(200, one.type, one.body), *one.engine);
    EXPECT_EQ(outcome.kind, one.kind) << one.engine->engine << one.type << one.body;
    if (outcome.kind == Kind::kStored) continue;
    const std::string name(one.engine->engine);
    EXPECT_THAT(outcome.error.message, HasSubstr("the endpoint is no " + name));
    EXPECT_THAT(outcome.error.hint, HasSubstr("url"));
  }
  const PushOutcome plain = classify(answer_of(200, "text/plain", "OK\x1b"));
  EXPECT_EQ(plain.error.message,
            "the endpoint is no Pyroscope: it answered 200 with text/plain: OK\\x1b");
}

// error_text() puts the hint in parentheses.
TEST(PushOutcomeTest, AnAnswerThatNeedsAnOperatorIsASentenceWithAHint) {
  struct Case {
    unsigned status;
    const char* type;
    const char* message;
    const char* hint;
  };
  const char* const url =
      "check the url of the endpoint: profctl ship adds /push.v1.PusherService/Push to it";
  const char* const server = "the log of the endpoint may say why; profctl ship tries again";
  for (const Case& one : std::vector<Case>{
           {404, "text/plain",
            "the endpoint answered 404: it does not know push.v1.PusherService/Push", url},
           {200, "text/html", "the endpoint answered 200 with a page, so it is no Pyroscope", url},
           {307, "text/plain",
            "the endpoint answered 307: it redirects to http://h, and redirects are not followed",
            "let the url of the endpoint name the target, without /push.v1.PusherService/Push"},
           {500, "application/json", "the endpoint answered 500: why", server},
           {503, "application/json", "the endpoint answered 503: why", server}}) {
    PushReply reply = answer_of(one.status, one.type);
    reply.location = "http://h";
    const PushOutcome outcome = classify(reply);
    EXPECT_EQ(outcome.kind, Kind::kLater) << one.status;
    EXPECT_EQ(outcome.error.message, one.message);
    EXPECT_EQ(outcome.error.hint, one.hint);
  }
}

TEST(PushOutcomeTest, ARequestThatMayHaveArrivedIsUnknown) {
  PushReply reply;
  EXPECT_EQ(classify(reply).kind, Kind::kLater);
  reply.reached = PushReply::Reached::kNoAnswer;
  EXPECT_EQ(classify(reply).kind, Kind::kUnknown);
}

TEST(PushOutcomeTest, APageIsNoPyroscope) {
  const PushOutcome outcome = classify(answer_of(200, "text/html; charset=utf-8", "<html>"));
  EXPECT_EQ(outcome.kind, Kind::kLater);
  EXPECT_THAT(outcome.error.message, HasSubstr("no Pyroscope"));
  EXPECT_THAT(outcome.error.hint, HasSubstr("url"));
}

// nginx and squid do that where they refuse a request.
TEST(PushOutcomeTest, APageHidesNoStatusThatSaysWhatIsToBeDone) {
  const auto page = [](unsigned status) {
    PushReply reply = answer_of(status, "text/html", "<html>");
    reply.retry_after = "30";
    return classify(reply);
  };
  for (const unsigned status : {401U, 403U, 407U}) {
    EXPECT_EQ(page(status).error.code, ErrorCode::kPermissionDenied) << status;
    EXPECT_EQ(page(status).kind, Kind::kLater) << status;
  }
  EXPECT_EQ(page(413).kind, Kind::kTooLarge);
  EXPECT_EQ(page(413).error.code, ErrorCode::kTooLarge);
  EXPECT_EQ(page(429).kind, Kind::kTooLarge);
  EXPECT_THAT(page(429).retry_after, Optional(std::chrono::seconds(30)));
  EXPECT_THAT(page(429).error.message, Not(HasSubstr("<html>")));
  // A page is no answer of an engine that refuses a profile.
  EXPECT_EQ(page(400).kind, Kind::kLater);
  EXPECT_THAT(page(400).error.message, HasSubstr("no Pyroscope"));
}

TEST(PushOutcomeTest, TheMessageIsThatOfTheAnswerAndCanNotControlATerminal) {
  EXPECT_THAT(classify(answer_of(400)).error.message, HasSubstr("answered 400: why"));
  for (const unsigned status : {400U, 422U}) {
    EXPECT_THAT(classify(answer_of(status)).error.hint, HasSubstr("[[service]] rule")) << status;
  }
  const auto plain = classify(answer_of(500, "text/plain", "a\x1b[31m"));
  EXPECT_THAT(plain.error.message, HasSubstr("a\\x1b[31m"));
}

TEST(PushOutcomeTest, RetryAfterIsInSecondsAndBounded) {
  EXPECT_THAT(parse_retry_after("7"), Optional(std::chrono::seconds(7)));
  EXPECT_THAT(parse_retry_after("99999"), Optional(std::chrono::minutes(10)));
  for (const char* text : {"", "-1", "1.5", " 1", "Sun, 06 Nov 1994 08:49:37 GMT"}) {
    EXPECT_FALSE(parse_retry_after(text)) << text;
  }
  PushReply reply = answer_of(429);
  EXPECT_THAT(classify(reply).retry_after, Optional(std::chrono::seconds(1)));
  reply.retry_after = "30";
  EXPECT_THAT(classify(reply).retry_after, Optional(std::chrono::seconds(30)));
  for (const unsigned status : {401U, 408U, 413U, 500U, 502U, 503U, 504U}) {
    reply.status = status;
    EXPECT_EQ(classify(reply).retry_after.has_value(), status == 503) << status;
  }
}

// The messages of Pyroscope's distributor, of gRPC and of Connect.
TEST(PushOutcomeTest, ARateIsNoSizeThatIsTooLarge) {
  const auto outcome_of_message = [](const std::string& message) {
    return classify(answer_of(429, "application/json",
                              R"({"code":"resource_exhausted","message":")" + message + R"("})"));
  };
  const PushOutcome rate =
      outcome_of_message("push rate limit (4.0 MiB) exceeded while adding 1.0 MiB");
  EXPECT_EQ(rate.kind, Kind::kTooLarge);
  EXPECT_EQ(rate.error.code, ErrorCode::kBusy);
  for (const char* message : {"received message larger than max (5 vs. 4)",
                              "message size 5 is larger than configured max 4"}) {
    const PushOutcome size = outcome_of_message(message);
    EXPECT_EQ(size.kind, Kind::kTooLarge) << message;
    EXPECT_EQ(size.error.code, ErrorCode::kTooLarge) << message;
    EXPECT_NE(size.error.hint, "") << message;
  }
}

// Pyroscope's handler of OTLP answers so.
TEST(PushOutcomeTest, ARateThatIsExceededIsNoRefusalThoughTheStatusIsOne) {
  constexpr EngineAnswers kRefusing{
      .engine = "receiver", .method = "m", .refuses_with_500 = true, .has_members = true};
  const std::string message =
      "rpc error: code = ResourceExhausted desc = push rate limit (4.0 MiB) exceeded while adding "
      "1.0 MiB";
  const auto outcome = classify(answer_of(500, "text/plain", message), kRefusing);
  EXPECT_EQ(outcome.kind, Kind::kTooLarge);
  EXPECT_EQ(outcome.error.code, ErrorCode::kBusy);
  EXPECT_EQ(outcome.most_tries, kMostRateTries);
  EXPECT_NE(outcome.error.hint, "");
  const auto refused = [&](unsigned status, const std::string& text) {
    return classify(answer_of(status, "text/plain", text), kRefusing).kind == Kind::kRefused;
  };
  EXPECT_TRUE(refused(500, "the service rate limit is invalid"));
  EXPECT_TRUE(refused(500, "exceeded"));
  EXPECT_TRUE(refused(400, message));
  EXPECT_EQ(classify(answer_of(429, "text/plain", message)).most_tries, 0U);
  EXPECT_EQ(classify(answer_of(500, "text/plain", message)).kind, Kind::kLater);
}

TEST(PushOutcomeTest, PausesDoubleUpToFiveMinutes) {
  EXPECT_LE(backoff(0, 0.999).count(), 501);
  EXPECT_GE(backoff(1, 0.999).count(), 998);
  EXPECT_GE(backoff(9, 0.999).count(), 255'000);
  EXPECT_LE(backoff(4'000'000, 0.999).count(), 300'001);
  EXPECT_GE(backoff(0, 0).count(), 1);
}

}  // namespace
}  // namespace profd
