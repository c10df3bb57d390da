#include "formats/control_api.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

StartRequest full_request() {
  StartRequest request;
  request.target = {.all = false,
                    .pids = {1234, 1235},
                    .comms = {"nginx", "a \"quoted\" one"},
                    .uids = {0, 4294967295},
                    .cgroups = {"/system.slice"}};
  request.children = false;
  request.from_exec = true;
  request.event = "cycles";
  request.period = kMax;
  request.duration_ms = 1500;
  return request;
}

SessionInfo a_session() {
  SessionInfo session;
  session.session = "5f2c01ab";
  session.state = "running";
  session.target.all = true;
  session.event = "cpu";
  session.frequency_hz = 99;
  session.started = "2026-01-02T03:04:05Z";
  session.seconds = 12.25;
  session.samples = 1u << 31;
  session.lost = 3;
  session.uid = 1000;
  session.targets_alive = false;
  return session;
}

ResultInfo a_result() {
  ResultInfo result;
  result.result = "5f2c01ab-dump-1";
  result.summary.session = "5f2c01ab";
  result.summary.started = "2026-01-02T03:04:05Z";
  result.summary.event = "cpu";
  result.summary.period_us = 10101;
  result.files = {{"work.12.prof", 4711}, {"objects/kernel-6.1.so", kMax}};
  return result;
}

StatusInfo a_status() {
  StatusInfo status;
  status.version = "0.1.0";
  status.pid = 77;
  status.uptime_seconds = 60;
  status.cpu_seconds = 0.125;
  status.rss_bytes = 40000000;
  status.sessions = 2;
  status.ledger = {.taken = 100, .sent = 80, .idle = 10, .filtered = 5, .lost = {{"ring_full", 4}}};
  status.outside_namespace = 1;
  status.received = 79;
  status.skipped_estimate = 2;
  status.mapping_records = 3;
  status.results_bytes = 4;
  return status;
}

TEST(ControlApi, EveryMessageReadBackIsEqual) {
  EXPECT_EQ(*parse_start_request(to_json(full_request())), full_request());
  EXPECT_EQ(*parse_session_info(to_json(a_session())), a_session());
  const std::vector<SessionInfo> sessions{a_session(), a_session()};
  EXPECT_EQ(*parse_session_list(to_json(sessions)), sessions);
  EXPECT_EQ(*parse_result_info(to_json(a_result())), a_result());
  EXPECT_EQ(*parse_status_info(to_json(a_status())), a_status());
  EXPECT_EQ(*parse_started(started_json("5f2c01ab")), "5f2c01ab");
}

TEST(ControlApi, TextIsAsTheDocumentSays) {
  EXPECT_EQ(started_json("5f2c01ab"), R"({"session":"5f2c01ab"})");
  EXPECT_EQ(
      to_json(a_status()),
      R"({"version":"0.1.0","pid":77,"uptime_seconds":60,"cpu_seconds":0.125,"rss_bytes":40000000,)"
      R"("sessions":2,"ledger":{"taken":100,"sent":80,"idle":10,"filtered":5,"lost":{"ring_full":4},)"
      R"("difference":1},"outside_namespace":1,"received":79,"skipped_estimate":2,)"
      R"("mapping_records":3,"results_bytes":4})");
  EXPECT_EQ(
      to_json(fail(ErrorCode::kNotFound, "no process has pid 7", "look again")),
      R"({"error":{"code":"not_found","message":"no process has pid 7","hint":"look again"}})");
}

TEST(ControlApi, ADifferenceMayBeNegative) {
  StatusInfo status = a_status();
  status.ledger.taken = 0;
  EXPECT_EQ(status.ledger.difference(), -99);
}

TEST(ControlApi, WhatARequestLeavesOutHasItsDefault) {
  StartRequest expected;
  expected.target.pids = {1};
  const auto request = parse_start_request(R"({"target":{"pids":[1]}})");
  ASSERT_TRUE(request);
  EXPECT_EQ(*request, expected);
}

struct BadRequest {
  const char* json;
  ErrorCode code;
  const char* named;  // must stand in the message
};

TEST(ControlApi, BadRequestsAreRefusedByName) {
  const std::string long_event =
      R"({"target":{"all":true},"event":")" + std::string(129, 'e') + "\"}";
  const BadRequest table[] = {
      {"", ErrorCode::kMalformed, "offset 0"},
      {"{", ErrorCode::kMalformed, "offset 1"},
      {"{} {}", ErrorCode::kMalformed, "extra data"},
      {"{\"target\":{\"comms\":[\"\xff\"]}}", ErrorCode::kMalformed, "offset"},
      {R"({"target":{"pids":[[[[[1]]]]]}})", ErrorCode::kMalformed, "too deep"},
      {"[]", ErrorCode::kInvalidArgument, "expected an object"},
      {"{}", ErrorCode::kInvalidArgument, "target"},
      {R"({"target":{}})", ErrorCode::kInvalidArgument, "no target"},
      {R"({"target":{"all":false}})", ErrorCode::kInvalidArgument, "no target"},
      {R"({"target":{"all":1}})", ErrorCode::kInvalidArgument,
       "target.all: expected true or false"},
      {R"({"target":{"pids":1}})", ErrorCode::kInvalidArgument, "target.pids: expected a list"},
      {R"({"target":{"pids":[0]}})", ErrorCode::kInvalidArgument, "0 is no pid"},
      {R"({"target":{"pids":[1,-1]}})", ErrorCode::kInvalidArgument, "target.pids[1]: expected"},
      {R"({"target":{"pids":[4294967296]}})", ErrorCode::kInvalidArgument, "target.pids[0]"},
      {R"({"target":{"pids":[4294967295]}})", ErrorCode::kInvalidArgument, "4294967295 is no pid"},
      {R"({"target":{"pids":[1.5]}})", ErrorCode::kInvalidArgument, "target.pids[0]"},
      {R"({"target":{"comms":[""]}})", ErrorCode::kInvalidArgument, "empty"},
      {R"({"target":{"comms":["sixteen-bytes-xy"]}})", ErrorCode::kInvalidArgument, "15 bytes"},
      {R"({"target":{"cgroups":["a"]}})", ErrorCode::kInvalidArgument, "cgroup"},
      {R"({"target":{"cgroups":["/a/../b"]}})", ErrorCode::kInvalidArgument, "cgroup"},
      {R"({"target":{"cgroups":["/a\u0000b"]}})", ErrorCode::kInvalidArgument, "cgroup"},
      {R"({"target":{"pid":[1]}})", ErrorCode::kInvalidArgument, "target.pid: no such field"},
      {R"({"target":{"all":true},"freq":99})", ErrorCode::kInvalidArgument, "freq: no such field"},
      {R"({"target":{"all":true},"frequency":0})", ErrorCode::kInvalidArgument, "frequency"},
      {R"({"target":{"all":true},"frequency":99,"period":1})", ErrorCode::kInvalidArgument,
       "exclude"},
      {R"({"target":{"all":true},"frequency":18446744073709551616})", ErrorCode::kInvalidArgument,
       "frequency"},
      {R"({"target":{"all":true},"from_exec":true})", ErrorCode::kInvalidArgument, "from_exec"},
      {R"({"target":{"all":true},"event":""})", ErrorCode::kInvalidArgument, "event"},
      {long_event.c_str(), ErrorCode::kInvalidArgument, "event"},
  };
  for (const BadRequest& bad : table) {
    const auto request = parse_start_request(bad.json);
    ASSERT_FALSE(request) << bad.json;
    EXPECT_EQ(request.error().code, bad.code) << bad.json << ": " << request.error().message;
    EXPECT_NE(request.error().message.find(bad.named), std::string::npos)
        << bad.json << ": " << request.error().message;
  }
}

struct Bound {
  const char* what;
  std::size_t limit;
  void (*add)(TargetRequest& target, std::uint32_t number);
};

constexpr Bound kBounds[] = {
    {"pids", 256, [](TargetRequest& target, std::uint32_t n) { target.pids.push_back(n); }},
    {"comms", 64,
     [](TargetRequest& target, std::uint32_t n) { target.comms.push_back(std::to_string(n)); }},
    {"uids", 64, [](TargetRequest& target, std::uint32_t n) { target.uids.push_back(n); }},
    {"cgroups", 8,
     [](TargetRequest& target, std::uint32_t n) {
       target.cgroups.push_back("/" + std::to_string(n));
     }},
};

TEST(ControlApi, ATargetHasOnlySoManyTermsOfAKind) {
  for (const Bound& bound : kBounds) {
    SCOPED_TRACE(bound.what);
    StartRequest request;
    for (std::uint32_t n = 1; n <= bound.limit; ++n) bound.add(request.target, n);
    EXPECT_EQ(*parse_start_request(to_json(request)), request);
    bound.add(request.target, 9999);
    const auto refused = parse_start_request(to_json(request));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().message.find(std::to_string(bound.limit) + " " + bound.what),
              std::string::npos)
        << refused.error().message;
  }
}

TEST(ControlApi, TermsGivenTwiceCountOnce) {
  for (const Bound& bound : kBounds) {
    SCOPED_TRACE(bound.what);
    StartRequest once;
    StartRequest often;
    for (const std::uint32_t n : {7U, 3U}) bound.add(once.target, n);
    for (int i = 0; i < 500; ++i) {
      for (const std::uint32_t n : {7U, 3U}) bound.add(often.target, n);
    }
    EXPECT_EQ(*parse_start_request(to_json(often)), once);
  }
}

TEST(ControlApi, ARequestCutAnywhereIsAnError) {
  const std::string whole = to_json(full_request());
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    EXPECT_FALSE(parse_start_request(std::string_view(whole).substr(0, cut))) << cut;
  }
}

TEST(ControlApi, AnAnswerMayHaveMembersThatAreNewToUs) {
  std::string status = to_json(a_status());
  status.insert(1, R"("new":{"deep":[1,2]},)");
  EXPECT_EQ(*parse_status_info(status), a_status());
}

TEST(ControlApi, AnAnswerOfAWrongTypeIsAnError) {
  std::string result = to_json(a_result());
  result.replace(result.find("4711"), 4, "-1");
  const auto parsed = parse_result_info(result);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::kMalformed);
  EXPECT_NE(parsed.error().message.find("files[0].bytes"), std::string::npos);
}

TEST(ControlApi, AnErrorKeepsItsCodeMessageAndHint) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    const Error error = parse_error(to_json(fail(static_cast<ErrorCode>(code), "what", "do this")));
    EXPECT_EQ(static_cast<int>(error.code), code);
    EXPECT_EQ(error.message, "what");
    EXPECT_EQ(error.hint, "do this");
  }
}

TEST(ControlApi, ABodyThatIsNoErrorIsQuotedAndCutShort) {
  for (const std::string& body : {std::string(), std::string("<html>"), std::string(100000, 'x')}) {
    const Error error = parse_error(body);
    EXPECT_EQ(error.code, ErrorCode::kInternal);
    EXPECT_LT(error.message.size(), 300u);
  }
}

TEST(ControlApi, IdsAreLettersDigitsAndDashes) {
  for (const char* id : {"5f2c01ab", "5f2c01ab-dump-1", "a", "A_b"})
    EXPECT_TRUE(is_valid_id(id)) << id;
  const std::string too_long(65, 'a');
  for (const char* id : {"", "a/b", "..", "a.b", "a b", "a%2f", "\xc3\xa9", too_long.c_str()}) {
    EXPECT_FALSE(is_valid_id(id)) << id;
  }
}

TEST(ControlApi, PathsStayBelowTheResult) {
  for (const char* path :
       {"a.prof", "objects/libc.so.6-abc.so", "..a", "a..", "...", "c++.1.prof"}) {
    EXPECT_TRUE(is_valid_result_path(path)) << path;
  }
  const std::string too_long(1025, 'a');
  for (const char* path :
       {"", "/", "/etc/passwd", "..", "../a", "a/../b", "a/..", "a//b", "a/", "./a", "a/./b", "a b",
        "a\nb", "a%2e", "a\\b", "1/2/3/4/5/6/7/8/9", too_long.c_str()}) {
    EXPECT_FALSE(is_valid_result_path(path)) << path;
  }
  EXPECT_FALSE(is_valid_result_path(std::string_view("a\0b", 3)));
}

TEST(ControlApi, TargetsAreDescribedForPeople) {
  TargetRequest target;
  target.pids = {1234, 7};
  target.comms = {"nginx"};
  EXPECT_EQ(describe(target), "pid 1234, pid 7, comm nginx");
  target.all = true;
  EXPECT_EQ(describe(target), "all");
}

}  // namespace
}  // namespace profd
