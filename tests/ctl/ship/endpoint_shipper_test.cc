// A shipper with a history, an endpoint and a clock of the test's own.

#include "ctl/ship/endpoint_shipper.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "formats/base/gzip.h"
#include "formats/profile/pprof_writer.h"
#include "tests/ctl/ship/a_window.h"

namespace profd {
namespace {

using std::chrono_literals::operator""min;
using std::chrono_literals::operator""h;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::StartsWith;

const ShipTime kNoon = std::chrono::sys_days(std::chrono::year(2026) / 1 / 2) + 12h;

// "20260102T12MM00Z"
std::string window_at(int minute) {
  const std::string digits = std::to_string(100 + minute).substr(1);
  return "20260102T12" + digits + "00Z";
}

class History final : public WindowSource {
 public:
  void add(int minute, int processes = 1) {
    test::AWindow window((kNoon + std::chrono::minutes(minute)).time_since_epoch().count());
    window.profile.duration_ns = length.count();
    for (int i = 0; i < processes; ++i) {
      const std::string name = window_at(minute) + "/" + std::to_string(i);
      window.add(i + 1, name, "-", name, 1);
    }
    files[window_at(minute)] = encode_pprof_gzip(window.profile);
  }
  Result<WindowNames> windows_after(const std::string& name) override {
    if (is_away) return fail(ErrorCode::kUnavailable, "no daemon");
    WindowNames names;
    for (const auto& [known, bytes] : files) {
      if (known > name) names.windows.push_back(known);
    }
    for (const std::string& known : removed) {
      if (!name.empty() && known > name) names.removed.push_back(known);
    }
    return names;
  }
  void remove(int minute) {
    files.erase(window_at(minute));
    removed.insert(window_at(minute));
  }
  Result<std::string> window(const std::string& name) override {
    const auto found = files.find(name);
    if (on_window) on_window(name);
    if (const auto error = errors.find(name); error != errors.end()) return error->second;
    if (found == files.end()) return fail(ErrorCode::kNotFound, "gone");
    return found->second;
  }

  bool is_away = false;
  std::chrono::nanoseconds length{0};  // of windows; without one, they are sent at once
  std::map<std::string, std::string> files;
  std::set<std::string> removed;
  std::map<std::string, Error> errors;  // of windows that can't be read
  std::function<void(const std::string&)> on_window;
};

// Keeps the service of each series that it stores.
class Endpoint final : public PushClient {
 public:
  Result<void> connect() override {
    if (is_away) return fail(error_of_connect, "refused");
    return {};
  }
  PushReply push(const PushMessage& message) override {
    PushReply reply;
    reply.reached = PushReply::Reached::kAnswered;
    reply.status = gateway.value_or(200);
    if (is_without_profiles(message)) {
      ++questions;
      if (is_away) {
        reply.reached = PushReply::Reached::kNotSent;
        reply.error = fail(error_of_connect, "refused");
      }
      complete(reply, message);
      return reply;
    }
    ++requests;
    if (!replies.empty()) {
      reply = replies.front();
      replies.pop_front();
    }
    if (on_push) on_push();
    if (on_message) on_message(message);
    complete(reply, message);
    if (reply.status == 200) stored.push_back(service_in(message));
    return reply;
  }

  // As an engine answers that has stored a request.
  static void complete(PushReply& reply, const PushMessage& message) {
    if (reply.status != 200 || !reply.content_type.empty()) return;
    reply.content_type = message.content_type;
    if (message.content_type == "application/json") reply.body = "{}";
  }
  // Known of Pyroscope alone.
  static bool is_without_profiles(const PushMessage& message) {
    return message.content_type == "application/proto" &&
           unpack_gzip(message.body, std::size_t{1} << 24)->empty();
  }
  // "" for an engine other than Pyroscope.
  static std::string service_in(const PushMessage& message) {
    if (message.content_type != "application/proto") return "";
    const std::string body = *unpack_gzip(message.body, std::size_t{1} << 24);
    const std::string name = "service_name";
    const std::size_t value = body.find(name) + name.size() + 2;
    return body.substr(value, static_cast<unsigned char>(body[value - 1]));
  }
  void reply_once(unsigned status, const std::string& retry_after = {}) {
    PushReply reply;
    reply.reached = PushReply::Reached::kAnswered;
    reply.status = status;
    reply.retry_after = retry_after;
    replies.push_back(reply);
  }

  bool is_away = false;
  ErrorCode error_of_connect = ErrorCode::kUnavailable;
  int requests = 0;                 // with a profile
  int questions = 0;                // requests without one
  std::optional<unsigned> gateway;  // the status of all answers
  std::deque<PushReply> replies;
  std::function<void()> on_push;
  std::function<void(const PushMessage&)> on_message;
  std::vector<std::string> stored;
};

// Pyroscope, with the number of requests that were packed.
class CountedEngine final : public Engine {
 public:
  explicit CountedEngine(int& packed) : packed_(packed) {}

  [[nodiscard]] const EngineTraits& traits() const override { return engine_->traits(); }
  [[nodiscard]] Result<void> check_labels(const SeriesLabels& labels) const override {
    return engine_->check_labels(labels);
  }
  [[nodiscard]] std::string encode(const SeriesLabels& labels,
                                   PprofProfile profile) const override {
    return engine_->encode(labels, std::move(profile));
  }
  [[nodiscard]] PushMessage profile_request(const SeriesLabels& labels,
                                            std::string_view encoded) const override {
    ++packed_;
    return engine_->profile_request(labels, encoded);
  }
  [[nodiscard]] PushMessage empty_request() const override { return engine_->empty_request(); }
  [[nodiscard]] PushOutcome classify(const PushReply& reply) const override {
    return engine_->classify(reply);
  }

 private:
  int& packed_;
  std::unique_ptr<Engine> engine_ = make_pyroscope_engine("");
};

// Pyroscope, with the most samples that were encoded at once.
class MeasuredEngine final : public Engine {
 public:
  explicit MeasuredEngine(std::size_t& most_samples) : most_samples_(most_samples) {}

  [[nodiscard]] const EngineTraits& traits() const override { return engine_->traits(); }
  [[nodiscard]] Result<void> check_labels(const SeriesLabels& labels) const override {
    return engine_->check_labels(labels);
  }
  [[nodiscard]] std::string encode(const SeriesLabels& labels,
                                   PprofProfile profile) const override {
    most_samples_ = std::max(most_samples_, profile.samples().size());
    return engine_->encode(labels, std::move(profile));
  }
  [[nodiscard]] PushMessage profile_request(const SeriesLabels& labels,
                                            std::string_view encoded) const override {
    return engine_->profile_request(labels, encoded);
  }
  [[nodiscard]] PushMessage empty_request() const override { return engine_->empty_request(); }
  [[nodiscard]] PushOutcome classify(const PushReply& reply) const override {
    return engine_->classify(reply);
  }

 private:
  std::size_t& most_samples_;
  std::unique_ptr<Engine> engine_ = make_pyroscope_engine("");
};

class TestClock final : public ShipClock {
 public:
  [[nodiscard]] ShipTime now() override { return time; }
  [[nodiscard]] bool wait(std::chrono::milliseconds pause) override {
    time += pause;
    longest = std::max(longest, pause);
    if (on_wait) on_wait();
    return time < end;
  }
  [[nodiscard]] double random() override { return 0.5; }

  ShipTime time = kNoon;
  ShipTime end = ShipTime::max();
  std::chrono::milliseconds longest{0};
  std::function<void()> on_wait;
};

class EndpointShipperTest : public testing::Test {
 protected:
  EndpointShipperTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "ship-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~EndpointShipperTest() override { std::filesystem::remove_all(directory_); }

  // Until all of the history is done, or the clock ends. A new process each time.
  ShipState ship() { return ship_to("a", endpoint_, clock_); }
  ShipState ship_to(const std::string& name, Endpoint& endpoint, TestClock& clock) {
    auto file = ShipStateFile::open(directory_, name);
    EXPECT_TRUE(file) << file.error().message;
    const auto ends = clock.end;
    const auto on_wait = clock.on_wait;
    clock.on_wait = [this, &file, &clock, on_wait] {
      if (on_wait) on_wait();
      const bool is_done = file->state().window == history_.files.rbegin()->first;
      if (is_done && file->state().in_flight.empty()) clock.end = clock.time;
    };
    EndpointShipper shipper(
        {.source = history_,
         .engine = *engine_,
         .client = endpoint,
         .clock = clock,
         .file = *file,
         .memory = *memory_,
         .split = split_,
         .log = [this](const std::string& line) { log_.push_back(line); },
         .show = [this](const EndpointReport& report) { reports_.push_back(report); },
         .url = url_});
    shipper.run();
    clock.on_wait = on_wait;
    clock.end = ends;
    return file->state();
  }

  std::filesystem::path directory_;
  History history_;
  Endpoint endpoint_;
  std::unique_ptr<Engine> engine_ = make_pyroscope_engine("");
  TestClock clock_;
  std::unique_ptr<WindowMemory> memory_ = std::make_unique<WindowMemory>();
  SplitOptions split_;
  std::string url_;
  std::vector<std::string> log_;
  std::vector<EndpointReport> reports_;
};

TEST_F(EndpointShipperTest, EachWindowIsSentOnceInOrder) {
  for (int minute = 0; minute < 3; ++minute) history_.add(minute);
  ship();
  history_.add(3);
  const ShipState state = ship();
  EXPECT_THAT(endpoint_.stored, ElementsAre(window_at(0) + "/0", window_at(1) + "/0",
                                            window_at(2) + "/0", window_at(3) + "/0"));
  EXPECT_EQ(state.windows_sent, 4U);
  EXPECT_EQ(state.profiles_sent, 4U);
  EXPECT_GT(state.bytes_sent, 0U);
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(EndpointShipperTest, AnOutageOfHalfAnHourLosesNothingAndIsLoggedOnce) {
  for (int minute = 0; minute < 30; ++minute) history_.add(minute);
  endpoint_.is_away = true;
  clock_.on_wait = [this] { endpoint_.is_away = clock_.time < kNoon + 30min; };
  const ShipState state = ship();
  EXPECT_THAT(endpoint_.stored, SizeIs(30));
  EXPECT_TRUE(std::ranges::is_sorted(endpoint_.stored));
  EXPECT_THAT(state.windows_dropped, IsEmpty());
  EXPECT_THAT(log_, ElementsAre(HasSubstr("fails"), HasSubstr("works again")));
  EXPECT_LE(clock_.longest, 5min);
}

TEST_F(EndpointShipperTest, AConnectionThatIsAbandonedAtTheEndIsNoFailure) {
  history_.add(0);
  endpoint_.is_away = true;
  endpoint_.error_of_connect = ErrorCode::kTimeout;
  clock_.end = kNoon;
  EXPECT_EQ(ship().window, "");
  EXPECT_THAT(log_, IsEmpty());
  clock_.end = kNoon + 1min;
  EXPECT_EQ(ship().window, "");
  EXPECT_THAT(log_, ElementsAre(HasSubstr("fails: refused")));
}

TEST_F(EndpointShipperTest, WhatIsTooOldIsCountedAndNotRead) {
  for (int minute = 0; minute < 4; ++minute) history_.add(minute);
  history_.files[window_at(0)] = "malformed";
  clock_.time = kNoon + 57min;
  const ShipState state = ship();
  EXPECT_THAT(endpoint_.stored, ElementsAre(window_at(2) + "/0", window_at(3) + "/0"));
  EXPECT_THAT(state.windows_dropped, ElementsAre(Pair("too_old", 2)));
}

TEST_F(EndpointShipperTest, WhatLeftTheHistoryBeforeItWasAskedForIsCountedOnce) {
  history_.add(0);
  ship();
  for (int minute = 1; minute < 6; ++minute) history_.add(minute);
  for (const int minute : {1, 2, 4}) history_.remove(minute);
  ship();
  const ShipState state = ship();
  EXPECT_THAT(state.windows_dropped, ElementsAre(Pair("gone", 3)));
  EXPECT_EQ(state.windows_sent, 3U);
  EXPECT_THAT(endpoint_.stored,
              ElementsAre(window_at(0) + "/0", window_at(3) + "/0", window_at(5) + "/0"));
  EXPECT_THAT(log_,
              ElementsAre(HasSubstr("were sent: 2, " + window_at(1) + " to " + window_at(2)),
                          HasSubstr("were sent: 1, " + window_at(4) + " to " + window_at(4))));
}

// As Pyroscope's handler of OTLP says it. Names of other users may be in a message.
TEST_F(EndpointShipperTest, ARateThatIsExceededIsAwaitedForABoundedNumberOfTimes) {
  engine_ = make_otlp_engine("");
  const auto reply_with_rate = [this](unsigned times) {
    for (unsigned i = 0; i < times; ++i) {
      endpoint_.reply_once(500);
      endpoint_.replies.back().content_type = "text/plain";
      endpoint_.replies.back().body = "push rate limit (4.0 MiB) exceeded while adding 1.0 MiB";
    }
  };
  history_.add(0);
  history_.add(1);
  reply_with_rate(kMostRateTries - 1);
  EXPECT_EQ(ship().profiles_sent, 2U);
  history_.add(2);
  history_.add(3);
  reply_with_rate(kMostRateTries);
  const ShipState state = ship();
  EXPECT_EQ(state.profiles_sent, 3U);
  EXPECT_THAT(state.profiles_dropped, ElementsAre(Pair("refused", 1)));
  const int of_each_first = static_cast<int>(kMostRateTries);
  EXPECT_EQ(endpoint_.requests, (of_each_first + 1) * 2);
}

// The endpoint is down until the history has removed what was written in the meantime.
TEST_F(EndpointShipperTest, AnOutageThatIsLongerThanTheHistoryIsCountedToTheWindow) {
  for (int minute = 0; minute < 3; ++minute) history_.add(minute);
  endpoint_.is_away = true;
  bool is_written = false;
  clock_.on_wait = [this, &is_written] {
    if (clock_.time < kNoon + 20min || std::exchange(is_written, true)) return;
    for (int minute = 3; minute < 20; ++minute) history_.add(minute);
    for (int minute = 0; minute < 18; ++minute) history_.remove(minute);
    endpoint_.is_away = false;
  };
  const ShipState state = ship();
  EXPECT_EQ(state.windows_sent, 3U) << "that which it had read, and the last two";
  EXPECT_THAT(state.windows_dropped, ElementsAre(Pair("gone", 17)));
}

TEST_F(EndpointShipperTest, WhatIsMalformedIsCounted) {
  history_.add(0);
  history_.add(1);
  history_.files[window_at(0)] = "malformed";
  EXPECT_THAT(ship().windows_dropped, ElementsAre(Pair("malformed", 1)));
  EXPECT_THAT(endpoint_.stored, SizeIs(1));
}

TEST_F(EndpointShipperTest, AWindowOverTheLimitIsTooLargeAndNotMalformed) {
  history_.files[window_at(0)] = pack_gzip(std::string((std::size_t{16} << 20) + 1, 'a'), 1);
  EXPECT_THAT(ship().windows_dropped, ElementsAre(Pair("too_large", 1)));
}

TEST_F(EndpointShipperTest, WhatTheDaemonCanNotReadIsCountedAndLoggedOnce) {
  for (int minute = 0; minute < 3; ++minute) history_.add(minute);
  history_.errors[window_at(0)] = fail(ErrorCode::kIo, "no disk");
  history_.errors[window_at(1)] = fail(ErrorCode::kPermissionDenied, "no permission");
  clock_.end = kNoon + 10min;
  const ShipState state = ship();
  EXPECT_THAT(state.windows_dropped, ElementsAre(Pair("unreadable", 2)));
  EXPECT_THAT(endpoint_.stored, ElementsAre(window_at(2) + "/0"));
  EXPECT_THAT(log_, ElementsAre("could not read window " + window_at(0) + ": no disk"));
  EXPECT_LE(clock_.time, kNoon + 1min);
}

TEST_F(EndpointShipperTest, ADaemonThatCanNotBeReachedMakesNoWindowUnreadable) {
  history_.add(0);
  history_.errors[window_at(0)] = fail(ErrorCode::kPermissionDenied, "could not connect");
  clock_.end = kNoon + 10min;
  history_.on_window = [this](const std::string&) { history_.is_away = true; };
  clock_.on_wait = [this] {
    history_.is_away = false;
    history_.errors.clear();
  };
  EXPECT_THAT(ship().windows_dropped, IsEmpty());
  EXPECT_THAT(endpoint_.stored, ElementsAre(window_at(0) + "/0"));
}

TEST_F(EndpointShipperTest, AWindowThatCanNotBeReadUntilItIsTooOldIsDropped) {
  history_.add(0);
  history_.add(50);
  history_.errors[window_at(0)] = fail(ErrorCode::kInternal, "a bug");
  clock_.end = kNoon + 2h;
  const ShipState state = ship();
  EXPECT_THAT(state.windows_dropped, ElementsAre(Pair("too_old", 1)));
  EXPECT_THAT(endpoint_.stored, ElementsAre(window_at(50) + "/0"));
  EXPECT_THAT(log_, ElementsAre("fails: a bug", "works again"));
}

TEST_F(EndpointShipperTest, AWindowThatWasInFlightAtAKillIsNotSentAgain) {
  for (int minute = 0; minute < 3; ++minute) history_.add(minute, 2);
  // What a killed process leaves: the files as they are at its second request.
  const auto kept = directory_.string() + ".kept";
  endpoint_.on_push = [&] {
    if (endpoint_.requests == 2) std::filesystem::copy(directory_, kept);
  };
  ship();
  EXPECT_THAT(endpoint_.stored, SizeIs(6));
  std::filesystem::remove_all(directory_);
  std::filesystem::rename(kept, directory_);
  endpoint_.on_push = nullptr;
  endpoint_.stored.clear();
  const ShipState state = ship();
  EXPECT_THAT(endpoint_.stored, ElementsAre(window_at(1) + "/0", window_at(1) + "/1",
                                            window_at(2) + "/0", window_at(2) + "/1"));
  EXPECT_EQ(state.windows_unknown, 1U);
  EXPECT_THAT(log_, ElementsAre(HasSubstr("window " + window_at(0) + " was in flight")));
}

TEST_F(EndpointShipperTest, AWindowThatWaitsForItsEndpointIsNotInFlight) {
  history_.add(0);
  endpoint_.is_away = true;
  clock_.end = kNoon + 1min;
  EXPECT_EQ(ship().in_flight, "");
  endpoint_.is_away = false;
  for (int i = 0; i < 20; ++i) endpoint_.reply_once(503);
  clock_.end = clock_.time + 1min;
  EXPECT_EQ(ship().in_flight, "");
  endpoint_.replies.clear();
  clock_.end = ShipTime::max();
  EXPECT_EQ(ship().windows_unknown, 0U);
  EXPECT_THAT(endpoint_.stored, SizeIs(1));
}

TEST_F(EndpointShipperTest, AWindowThatIsSentAfterARestartIsCountedOnce) {
  history_.add(0, 2);
  endpoint_.reply_once(400);
  for (int i = 0; i < 20; ++i) endpoint_.reply_once(503);
  clock_.end = kNoon + 1min;
  const ShipState ended = ship();
  EXPECT_EQ(ended.in_flight, "");
  EXPECT_THAT(ended.profiles_dropped, IsEmpty());
  endpoint_.replies.clear();
  endpoint_.reply_once(400);
  clock_.end = ShipTime::max();
  const ShipState state = ship();
  EXPECT_EQ(state.windows_unknown, 0U);
  EXPECT_EQ(state.windows_sent, 1U);
  EXPECT_THAT(state.profiles_dropped, ElementsAre(Pair("refused", 1)));
}

TEST_F(EndpointShipperTest, ARequestWithoutAnswerIsNotRepeated) {
  history_.add(0, 2);
  PushReply reply;
  reply.reached = PushReply::Reached::kNoAnswer;
  endpoint_.replies.push_back(reply);
  const ShipState state = ship();
  EXPECT_EQ(endpoint_.requests, 2);
  EXPECT_THAT(endpoint_.stored, ElementsAre(window_at(0) + "/1"));
  EXPECT_THAT(state.profiles_dropped, ElementsAre(Pair("unknown", 1)));
}

TEST_F(EndpointShipperTest, AnOutageBehindAGatewayMakesOneProfileUnknown) {
  for (int minute = 0; minute < 30; ++minute) history_.add(minute);
  endpoint_.gateway = 502;
  clock_.on_wait = [this] {
    if (clock_.time >= kNoon + 30min) endpoint_.gateway.reset();
  };
  const ShipState state = ship();
  EXPECT_THAT(state.profiles_dropped, ElementsAre(Pair("unknown", 1)));
  EXPECT_EQ(endpoint_.requests, 30);
  EXPECT_THAT(endpoint_.stored, SizeIs(29));
  EXPECT_GT(endpoint_.questions, 5);
  EXPECT_THAT(log_, ElementsAre(HasSubstr("fails"), HasSubstr("works again")));
}

TEST_F(EndpointShipperTest, AnEndpointThatIsAwayMeanwhileIsAskedAgain) {
  history_.add(0, 3);
  endpoint_.reply_once(502);
  endpoint_.on_push = [this] { endpoint_.is_away = endpoint_.requests == 1; };
  clock_.on_wait = [this] {
    if (endpoint_.questions < 2) return;
    endpoint_.is_away = false;  // and its engine is down
    if (endpoint_.questions < 5) endpoint_.gateway = 502;
    if (endpoint_.questions >= 5) endpoint_.gateway.reset();
  };
  EXPECT_THAT(ship().profiles_dropped, ElementsAre(Pair("unknown", 1)));
  EXPECT_EQ(endpoint_.requests, 3);
  EXPECT_THAT(endpoint_.stored, SizeIs(2));
}

TEST_F(EndpointShipperTest, ARefusalOfARequestWithoutProfilesIsAnAnswer) {
  history_.add(0, 2);
  endpoint_.reply_once(504);
  endpoint_.gateway = 400;  // as Pyroscope answers it
  endpoint_.on_push = [this] { endpoint_.reply_once(200); };
  EXPECT_THAT(ship().profiles_dropped, ElementsAre(Pair("unknown", 1)));
  EXPECT_EQ(endpoint_.questions, 1);
  EXPECT_THAT(endpoint_.stored, ElementsAre(window_at(0) + "/1"));
}

TEST_F(EndpointShipperTest, ARefusedSeriesIsDroppedAlone) {
  history_.add(0, 3);
  endpoint_.reply_once(400);
  const ShipState state = ship();
  EXPECT_THAT(endpoint_.stored, SizeIs(2));
  EXPECT_THAT(state.profiles_dropped, ElementsAre(Pair("refused", 1)));
  EXPECT_THAT(log_, ElementsAre(HasSubstr("refuses a profile")));
}

TEST_F(EndpointShipperTest, AWindowOfWhichNothingIsStoredIsNotSent) {
  history_.add(0, 2);
  history_.add(1, 2);
  history_.add(2, 2);
  for (const unsigned status : {504U, 400U, 400U, 504U, 400U, 200U}) endpoint_.reply_once(status);
  const ShipState state = ship();
  EXPECT_EQ(state.windows_sent, 1U);
  EXPECT_THAT(state.windows_dropped, ElementsAre(Pair("refused", 1), Pair("unknown", 1)));
  EXPECT_EQ(state.profiles_sent, 1U);
}

TEST_F(EndpointShipperTest, AWindowOfWhichARuleDropsAllIsSent) {
  history_.add(0);
  ServiceRule rule;
  rule.patterns["comm"] = "*";
  rule.drop = true;
  split_.rules.push_back(rule);
  const ShipState state = ship();
  EXPECT_THAT(state.windows_dropped, IsEmpty());
  EXPECT_EQ(state.windows_sent, 1U);
  EXPECT_EQ(state.rows_dropped, 1U);
  EXPECT_EQ(endpoint_.requests, 0);
}

TEST_F(EndpointShipperTest, ATenantsRateIsWaitedFor) {
  history_.add(0);
  endpoint_.reply_once(429, "40");
  endpoint_.reply_once(429);
  EXPECT_THAT(ship().profiles_dropped, IsEmpty());
  EXPECT_THAT(endpoint_.stored, SizeIs(1));
  EXPECT_EQ(clock_.longest, std::chrono::seconds(40));
}

TEST_F(EndpointShipperTest, ABodyThatIsTooLargeIsSentInHalves) {
  test::AWindow window(kNoon.time_since_epoch().count());
  for (int i = 0; i < 4; ++i) window.add(1, "a", "-", "f" + std::to_string(i), 1);
  history_.files[window_at(0)] = encode_pprof_gzip(window.profile);
  endpoint_.reply_once(413);
  EXPECT_THAT(ship().profiles_dropped, IsEmpty());
  EXPECT_THAT(endpoint_.stored, ElementsAre("a", "a"));
  history_.add(1);
  endpoint_.reply_once(413);
  EXPECT_THAT(ship().profiles_dropped, ElementsAre(Pair("too_large", 1)));
}

// A service of four samples, whose functions have names of 1,000 bytes.
std::string small_window() {
  test::AWindow window(kNoon.time_since_epoch().count());
  for (int i = 0; i < 4; ++i) {
    window.add(1, "a", "-", std::to_string(i) + std::string(1000, 'f'), 1);
  }
  return encode_pprof_gzip(window.profile);
}

// Finds one that is halved at each 429.
TEST_F(EndpointShipperTest, ASmallProfileWaitsForTheRateAsAWhole) {
  history_.files[window_at(0)] = small_window();
  for (int i = 0; i < 8; ++i) endpoint_.reply_once(429);
  const ShipState state = ship();
  EXPECT_THAT(state.profiles_dropped, IsEmpty());
  EXPECT_EQ(endpoint_.requests, 9);
  EXPECT_EQ(state.profiles_sent, 1U);
}

// Finds one over the burst of the tenant that is never sent, and a halving without an end.
TEST_F(EndpointShipperTest, ALargeProfileIsHalvedForTheRateDownToAQuarterMebibyte) {
  constexpr int kSamples = 800;
  test::AWindow window(kNoon.time_since_epoch().count());
  for (int i = 0; i < kSamples; ++i) {
    window.add(1, "a", "-", std::to_string(i) + std::string(1000, 'f'), 1);
  }
  history_.files[window_at(0)] = encode_pprof_gzip(window.profile);
  for (int i = 0; i < 20; ++i) endpoint_.reply_once(429);
  const ShipState state = ship();
  EXPECT_THAT(state.profiles_dropped, IsEmpty());
  // Of 0.8 MB: a half, and a quarter, which is below the limit. The other half is not refused.
  EXPECT_EQ(state.profiles_sent, 3U);
  EXPECT_EQ(endpoint_.requests, 20 + 3);
}

TEST_F(EndpointShipperTest, ASmallProfileIsHalvedWhereTheAnswerCallsItTooLarge) {
  history_.files[window_at(0)] = small_window();
  endpoint_.reply_once(429);
  endpoint_.replies.back().content_type = "application/json";
  endpoint_.replies.back().body =
      R"json({"message":"received message larger than max (5 vs. 4)"})json";
  const ShipState state = ship();
  EXPECT_THAT(state.profiles_dropped, IsEmpty());
  EXPECT_EQ(state.profiles_sent, 2U);
}

TEST_F(EndpointShipperTest, WindowsOfManySamplesAreSentInParts) {
  test::AWindow window(kNoon.time_since_epoch().count());
  for (int i = 0; i < 8001; ++i) window.add(1, "a", "-", "f" + std::to_string(i), 1);
  history_.files[window_at(0)] = encode_pprof_gzip(window.profile);
  ship();
  EXPECT_THAT(endpoint_.stored, ElementsAre("a", "a"));
}

// Of what is not sent, too, no more samples are encoded at once than the engine takes: the memory
// of a profile is bounded by them.
TEST_F(EndpointShipperTest, WhatIsDroppedIsEncodedInParts) {
  test::AWindow window(kNoon.time_since_epoch().count());
  for (int i = 0; i < 8001; ++i) window.add(1, "a", "-", "f" + std::to_string(i), 1);
  history_.files[window_at(0)] = encode_pprof_gzip(window.profile);
  split_.host = "\xff";  // a label that no engine takes
  std::size_t most_samples = 0;
  engine_ = std::make_unique<MeasuredEngine>(most_samples);
  EXPECT_THAT(ship().profiles_dropped, ElementsAre(Pair("invalid_labels", 2)));
  EXPECT_EQ(most_samples, 4001U);
}

TEST_F(EndpointShipperTest, WhatIsDroppedAtTheEndIsEncodedInParts) {
  test::AWindow window(kNoon.time_since_epoch().count());
  window.add(1, "a", "-", "f", 1);
  for (int i = 0; i < 8001; ++i) window.add(2, "b", "-", "f" + std::to_string(i), 1);
  history_.files[window_at(0)] = encode_pprof_gzip(window.profile);
  endpoint_.on_push = [this] { clock_.time += 2min; };
  clock_.end = kNoon;
  std::size_t most_samples = 0;
  engine_ = std::make_unique<MeasuredEngine>(most_samples);
  const ShipState state = ship();
  EXPECT_EQ(state.profiles_sent, 1U);
  EXPECT_THAT(state.profiles_dropped, ElementsAre(Pair("ended", 2)));
  EXPECT_EQ(most_samples, 4001U);
}

TEST_F(EndpointShipperTest, NothingIsSentWhileThePositionCanNotBeStored) {
  history_.add(0);
  clock_.end = kNoon + 10min;
  // Root may write anywhere: a directory is in the way of the file.
  std::filesystem::create_directories(directory_ / "a.json.next");
  const ShipState state = ship();
  EXPECT_EQ(state.window, "");
  EXPECT_EQ(endpoint_.requests, 0);
  std::filesystem::remove(directory_ / "a.json.next");
  clock_.end = ShipTime::max();
  EXPECT_EQ(ship().windows_sent, 1U);
}

TEST_F(EndpointShipperTest, AnEndpointThatSendsLeavesItsMemoryToOthers) {
  memory_ = std::make_unique<WindowMemory>(1);  // for one window
  history_.add(0, 3);
  history_.add(1, 2);
  Endpoint other;
  TestClock other_clock;
  endpoint_.on_push = [&] {
    if (endpoint_.requests == 2) {
      EXPECT_EQ(ship_to("b", other, other_clock).profiles_sent, 5U);
    }
  };
  EXPECT_EQ(ship().profiles_sent, 5U);
  EXPECT_THAT(other.stored, SizeIs(5));
  EXPECT_EQ(endpoint_.stored, other.stored);
  EXPECT_EQ(memory_->used(), 0U);
}

TEST_F(EndpointShipperTest, AnEndpointThatIsAwayLeavesItsMemoryToOthers) {
  memory_ = std::make_unique<WindowMemory>(1);
  history_.add(0, 3);
  endpoint_.is_away = true;
  Endpoint other;
  TestClock other_clock;
  clock_.on_wait = [&] {
    if (!endpoint_.is_away || clock_.longest == std::chrono::milliseconds(0)) return;
    EXPECT_EQ(ship_to("b", other, other_clock).profiles_sent, 3U);
    endpoint_.is_away = false;
  };
  EXPECT_EQ(ship().profiles_sent, 3U);
  EXPECT_EQ(endpoint_.stored, other.stored);
}

TEST_F(EndpointShipperTest, WhatIsNotSentIsCountedAndNotPacked) {
  history_.add(0, 2);
  split_.host = "\xff";  // a label that no engine takes
  int packed = 0;
  engine_ = std::make_unique<CountedEngine>(packed);
  const ShipState state = ship();
  EXPECT_THAT(state.profiles_dropped, ElementsAre(Pair("invalid_labels", 2)));
  EXPECT_GT(state.bytes_dropped.at("invalid_labels"), 100U);
  EXPECT_EQ(packed, 0);
  history_.add(1);
  split_.host = "h";
  ship();
  EXPECT_EQ(packed, 1);
}

TEST_F(EndpointShipperTest, AWindowWaitsForTheTurnOfItsHost) {
  history_.length = 1min;
  history_.add(0, 3);
  clock_.time = kNoon + 1min;
  std::vector<ShipTime> times;
  endpoint_.on_push = [&] { times.push_back(clock_.time); };
  ship();
  ASSERT_THAT(times, SizeIs(3));
  const auto offset = std::chrono::duration<double>(60 * send_phase(split_.host));
  EXPECT_GE(times[0] - (kNoon + 1min), offset);
  EXPECT_LE(times[0] - (kNoon + 1min), offset + std::chrono::milliseconds(1));
  EXPECT_EQ(times[1] - times[0], std::chrono::seconds(2));  // a tenth of a minute for three
  EXPECT_EQ(times[2] - times[1], std::chrono::seconds(2));
}

TEST_F(EndpointShipperTest, AWindowIsReadWhenItsTurnIsThere) {
  history_.length = 1min;
  history_.add(0);
  history_.add(1);
  clock_.time = kNoon + 1min;
  std::vector<ShipTime> times;
  history_.on_window = [&](const std::string&) { times.push_back(clock_.time); };
  ship();
  ASSERT_THAT(times, SizeIs(2));
  const auto offset = std::chrono::duration<double>(60 * send_phase(split_.host));
  EXPECT_EQ(times[0], kNoon + 1min);
  EXPECT_GE(times[1] - (kNoon + 2min), offset);
}

TEST_F(EndpointShipperTest, AfterAnOutageNoWindowWaits) {
  history_.length = 1min;
  for (int minute = 0; minute < 30; ++minute) history_.add(minute, 2);
  clock_.time = kNoon + 32min;
  ship();
  EXPECT_THAT(endpoint_.stored, SizeIs(60));
  EXPECT_LE(clock_.time - (kNoon + 32min), std::chrono::seconds(1));
}

TEST_F(EndpointShipperTest, TheEndOfTheProgramEndsTheWaitForATurn) {
  history_.length = 1min;
  history_.add(0);
  clock_.time = kNoon + 1min;
  clock_.end = clock_.time;
  const ShipState state = ship();
  EXPECT_EQ(endpoint_.requests, 0);
  EXPECT_EQ(state.in_flight, "");
  EXPECT_EQ(state.window, "");
}

TEST_F(EndpointShipperTest, WhatCanNotBeSentAtTheEndIsCounted) {
  history_.add(0, 3);
  endpoint_.on_push = [this] { endpoint_.is_away = true; };
  clock_.end = kNoon + 1min;
  ShipState state = ship();
  EXPECT_EQ(state.in_flight, window_at(0));
  EXPECT_EQ(state.profiles_sent, 1U);
  EXPECT_THAT(state.profiles_dropped, ElementsAre(Pair("ended", 2)));
  EXPECT_GT(state.bytes_dropped["ended"], 0U);
  clock_.end = ShipTime::max();
  state = ship();
  EXPECT_EQ(state.in_flight, "");
  EXPECT_EQ(state.windows_unknown, 1U);
  EXPECT_EQ(endpoint_.requests, 1);
}

TEST_F(EndpointShipperTest, TheRestOfAWindowIsSentForAMinuteAfterTheEnd) {
  history_.add(0, 5);
  endpoint_.on_push = [this] { clock_.time += std::chrono::seconds(40); };
  clock_.end = kNoon;
  const ShipState state = ship();
  EXPECT_EQ(state.profiles_sent, 2U);
  EXPECT_THAT(state.profiles_dropped, ElementsAre(Pair("ended", 3)));
  EXPECT_EQ(state.in_flight, window_at(0));
}

TEST_F(EndpointShipperTest, AWindowThatWasOnlyRefusedAtTheEndIsSentAgain) {
  history_.add(0, 2);
  endpoint_.reply_once(400);
  endpoint_.on_push = [this] { endpoint_.is_away = true; };
  clock_.end = kNoon + 1min;
  const ShipState ended = ship();
  EXPECT_EQ(ended.in_flight, "");
  EXPECT_THAT(ended.profiles_dropped, IsEmpty());
}

TEST_F(EndpointShipperTest, EachEngineGetsTheWindowInItsForm) {
  history_.add(0);
  for (const char* type : {"application/json", "application/x-protobuf"}) {
    engine_ = type == std::string("application/json") ? make_parca_engine() : make_otlp_engine("");
    endpoint_.on_message = [&](const PushMessage& message) {
      EXPECT_EQ(message.content_type, type);
    };
    endpoint_.stored.clear();
    std::filesystem::remove(directory_ / "a.json");
    EXPECT_EQ(ship().profiles_sent, 1U) << type;
    EXPECT_THAT(endpoint_.stored, ElementsAre("")) << type;
  }
}

// A window with a stack of 1,001 frames: "leaf", 999 callers and "root".
std::string deep_window() {
  test::AWindow window(kNoon.time_since_epoch().count());
  PprofProfile& profile = window.profile;
  const auto location_of = [&profile](const std::string& name) {
    const PprofLine line{.function = profile.add_function({.name = profile.add_text(name)})};
    return profile.add_location({}, {&line, 1});
  };
  std::vector<std::uint32_t> stack(1001, location_of("caller"));
  stack.front() = location_of("leaf");
  stack.back() = location_of("root");
  profile.add_sample({.labels = profile.add_labels({}), .stack = profile.add_stack(stack)},
                     std::vector<std::int64_t>{1, 10});
  return encode_pprof_gzip(profile);
}

// Finds a stack of which Pyroscope drops the leaf.
TEST_F(EndpointShipperTest, AStackThatIsTooDeepForItsEngineKeepsItsLeaf) {
  history_.files[window_at(0)] = deep_window();
  std::string body;
  endpoint_.on_message = [&](const PushMessage& message) {
    body = *unpack_gzip(message.body, std::size_t{1} << 24);
  };
  for (const bool is_otlp : {false, true}) {
    if (is_otlp) engine_ = make_otlp_engine("");
    std::filesystem::remove(directory_ / "a.json");
    EXPECT_EQ(ship().profiles_sent, 1U) << is_otlp;
    EXPECT_THAT(body, HasSubstr("leaf")) << is_otlp;
    EXPECT_THAT(body, HasSubstr("[frames left out]")) << is_otlp;
    EXPECT_THAT(body, testing::Not(HasSubstr("root"))) << is_otlp;
  }
}

TEST_F(EndpointShipperTest, APositionHasOneProcess) {
  const auto first = ShipStateFile::open(directory_, "a");
  const auto second = ShipStateFile::open(directory_, "a");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kBusy);
  EXPECT_TRUE(ShipStateFile::open(directory_, "b"));
}

TEST_F(EndpointShipperTest, AMalformedPositionIsNoBeginning) {
  std::ofstream(directory_ / "a.json") << "{}";
  const auto file = ShipStateFile::open(directory_, "a");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kMalformed);
  EXPECT_THAT(file.error().hint, HasSubstr("47 hours")) << "which Parca and OTLP get again";
}

TEST_F(EndpointShipperTest, AReportHasThePositionTheLossesAndTheLastError) {
  history_.add(0, 2);
  endpoint_.reply_once(400);
  const ShipState state = ship();
  EXPECT_EQ(reports_.front().state.window, "");
  EXPECT_EQ(reports_[1].waiting, window_at(0));
  const EndpointReport& last = reports_.back();
  EXPECT_EQ(last.state, state);
  EXPECT_EQ(last.failing_since, "");
  EXPECT_THAT(last.last_error, HasSubstr("the endpoint answered 400"));
  EXPECT_EQ(last.last_error_at, "2026-01-02T12:00:00Z");
  ASSERT_THAT(last.state.bytes_dropped, SizeIs(1));
  EXPECT_GT(last.state.bytes_dropped.at("refused"), 50U);
}

// Fails where the time stays after the answer, or is that of another request.
TEST_F(EndpointShipperTest, AReportSaysSinceWhenAnAnswerIsAwaited) {
  history_.add(0, 2);
  std::vector<std::string> times;
  endpoint_.on_push = [&] {
    times.push_back(reports_.back().asked_at);
    clock_.time += std::chrono::seconds(20);
  };
  ship();
  ASSERT_THAT(times, SizeIs(2));
  EXPECT_EQ(times[0], "2026-01-02T12:00:00Z");
  EXPECT_EQ(times[1], "2026-01-02T12:00:20Z");
  EXPECT_EQ(reports_.back().asked_at, "");
}

TEST_F(EndpointShipperTest, AReportSaysSinceWhenTheEndpointFails) {
  history_.add(0);
  endpoint_.is_away = true;
  clock_.on_wait = [this] { endpoint_.is_away = clock_.time < kNoon + 30min; };
  ship();
  const auto fails = [](const EndpointReport& report) {
    return report.failing_since == "2026-01-02T12:00:00Z" && report.last_error == "refused";
  };
  EXPECT_GT(std::ranges::count_if(reports_, fails), 3);
  EXPECT_EQ(reports_.back().failing_since, "");
  EXPECT_EQ(reports_.back().last_error, "refused");
}

// An answer alone does not say which of several servers has given it.
TEST_F(EndpointShipperTest, TheLogHasTheUrlThatFailsOnce) {
  url_ = "http://h:1/p";
  history_.add(0);
  endpoint_.reply_once(401);
  ship();
  EXPECT_THAT(log_, ElementsAre(StartsWith("fails at http://h:1/p: the endpoint answered 401"),
                                "works again"));
  log_.clear();
  history_.add(1);
  PushReply silent;
  silent.reached = PushReply::Reached::kNoAnswer;
  silent.error = fail(ErrorCode::kTimeout, "no answer from http://h:1/p: it took too long");
  endpoint_.replies.push_back(silent);
  ship();
  EXPECT_THAT(log_, ElementsAre("fails: no answer from http://h:1/p: it took too long"));
}

TEST_F(EndpointShipperTest, TheUrlIsNotNamedWhereTheDaemonFails) {
  url_ = "http://h:1/p";
  history_.add(0);
  history_.is_away = true;
  clock_.on_wait = [this] { history_.is_away = clock_.time < kNoon + 5min; };
  ship();
  EXPECT_THAT(log_, ElementsAre("fails: no daemon", "works again"));
}

TEST_F(EndpointShipperTest, AnEndpointThatFailsByTurnsIsLoggedOnceAMinute) {
  for (int minute = 0; minute < 20; ++minute) {
    history_.add(minute);
    endpoint_.reply_once(503);
    endpoint_.reply_once(200);
  }
  clock_.time = kNoon + 20min;
  ship();
  EXPECT_THAT(log_, ElementsAre(HasSubstr("fails"), HasSubstr("works again")));
}

TEST_F(EndpointShipperTest, ALongFailureSoonAfterAnotherOneIsLogged) {
  history_.add(0, 2);
  endpoint_.reply_once(503);
  endpoint_.reply_once(200);
  for (int i = 0; i < 10; ++i) endpoint_.reply_once(503);
  ship();
  EXPECT_THAT(log_, ElementsAre(HasSubstr("fails"), HasSubstr("works again"), HasSubstr("fails"),
                                HasSubstr("works again")));
}

TEST_F(EndpointShipperTest, WhatEndsWithTheProgramIsNoFailure) {
  history_.add(0);
  history_.is_away = true;
  clock_.end = kNoon;
  ship();
  EXPECT_THAT(log_, IsEmpty());
  EXPECT_EQ(reports_.back().last_error, "");
}

TEST_F(EndpointShipperTest, ADaemonThatIsBackIsARecovery) {
  history_.add(0);
  history_.is_away = true;
  clock_.on_wait = [this] { history_.is_away = clock_.time < kNoon + 5min; };
  ship();
  EXPECT_THAT(log_, ElementsAre("fails: no daemon", "works again"));
}

TEST_F(EndpointShipperTest, AnEndpointThatRefusesDoesNotFail) {
  history_.add(0);
  endpoint_.reply_once(503);
  endpoint_.reply_once(400);
  ship();
  EXPECT_EQ(reports_.back().failing_since, "");
  EXPECT_THAT(log_, ElementsAre(HasSubstr("fails"), "works again", HasSubstr("refuses")));
}

TEST_F(EndpointShipperTest, ADiskThatWorksAgainIsARecovery) {
  history_.files[window_at(0)] = "malformed";
  std::filesystem::create_directories(directory_ / "a.json.next");
  clock_.on_wait = [this] {
    if (clock_.time > kNoon + 2min) std::filesystem::remove(directory_ / "a.json.next");
  };
  EXPECT_EQ(ship().window, window_at(0));
  EXPECT_EQ(reports_.back().failing_since, "");
  EXPECT_THAT(log_, ElementsAre(HasSubstr("fails: could not write"), "works again"));
}

TEST_F(EndpointShipperTest, AWindowThatCanBeReadAgainIsARecovery) {
  history_.files[window_at(0)] = "malformed";
  history_.errors[window_at(0)] = fail(ErrorCode::kUnavailable, "no daemon");
  clock_.end = kNoon + 30min;
  clock_.on_wait = [this] {
    if (clock_.time > kNoon + 2min) history_.errors.clear();
  };
  EXPECT_THAT(ship().windows_dropped, ElementsAre(Pair("malformed", 1)));
  EXPECT_EQ(reports_.back().failing_since, "");
  EXPECT_THAT(log_, ElementsAre("fails: no daemon", "works again"));
}

TEST_F(EndpointShipperTest, RefusalsWithManyMessagesAreLoggedOnceAMinute) {
  history_.add(0, 9);
  for (int i = 0; i < 9; ++i) {
    endpoint_.reply_once(400);
    endpoint_.replies.back().body = "series " + std::to_string(i);
  }
  EXPECT_THAT(ship().profiles_dropped, ElementsAre(Pair("refused", 9)));
  EXPECT_THAT(log_, ElementsAre(HasSubstr("series 0")));
  EXPECT_THAT(reports_.back().last_error, HasSubstr("series 8"));
}

TEST_F(EndpointShipperTest, APositionInTheFutureIsLeft) {
  std::ofstream(directory_ / "a.json")
      << R"({"window":"20270101T000000Z","in_flight":"","windows_sent":1,"windows_unknown":0,)"
         R"("profiles_sent":1,"bytes_sent":1,"windows_dropped":{},"profiles_dropped":{},)"
         R"("rows_dropped":0,"services_other":0})";
  history_.add(0);
  clock_.end = kNoon + 10min;
  clock_.on_wait = [this] {
    clock_.time += std::chrono::seconds(1);
    if (clock_.time > kNoon + 1min) history_.add(1);
  };
  const ShipState state = ship();
  EXPECT_EQ(state.window, window_at(1));
  EXPECT_THAT(endpoint_.stored, ElementsAre(window_at(1) + "/0"));
  EXPECT_THAT(log_, ElementsAre(HasSubstr("lies in the future: windows after " + window_at(0))));
}

TEST_F(EndpointShipperTest, AWindowInTheFutureIsCountedOnceAndIsNoPosition) {
  history_.add(0);
  history_.files["20270101T000000Z"] = "";
  clock_.end = kNoon + 5min;
  clock_.on_wait = [this] {
    clock_.time += std::chrono::seconds(1);
    if (clock_.time > kNoon + 1min) history_.add(1);
  };
  const ShipState state = ship();
  EXPECT_EQ(state.window, window_at(1));
  EXPECT_THAT(endpoint_.stored, ElementsAre(window_at(0) + "/0", window_at(1) + "/0"));
  EXPECT_THAT(state.windows_dropped, ElementsAre(Pair("in_future", 1)));
}

TEST_F(EndpointShipperTest, APositionOfAnOlderVersionIsRead) {
  std::ofstream(directory_ / "a.json")
      << R"({"window":"20260102T120000Z","in_flight":"","windows_sent":1,"windows_unknown":0,)"
         R"("profiles_sent":1,"bytes_sent":1,"windows_dropped":{},"profiles_dropped":{},)"
         R"("rows_dropped":0,"services_other":0})";
  const auto file = ShipStateFile::open(directory_, "a");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_THAT(file->state().bytes_dropped, IsEmpty());
}

}  // namespace
}  // namespace profd
