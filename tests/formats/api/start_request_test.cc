#include "formats/api/start_request.h"

#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace profd {
namespace {

constexpr std::uint64_t kMaxPeriod = std::numeric_limits<std::uint64_t>::max();

StartRequest full_request() {
  StartRequest request;
  request.target = {.all = false,
                    .pids = {1234, 1235},
                    .comms = {"nginx", "a \"quoted\" one"},
                    .uids = {0, 4294967294},
                    .cgroups = {"/system.slice"},
                    .units = {"nginx.service"},
                    .containers = {"0123abcd", "web"}};
  request.children = false;
  request.from_exec = true;
  request.event = "cycles";
  request.period = kMaxPeriod;
  request.duration_ms = 1500;
  request.lease_ms = 30'000;
  return request;
}

TEST(StartRequest, ReadBackIsEqual) {
  const auto read = parse_start_request(to_json(full_request()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, full_request());
}

TEST(StartRequest, WhatARequestLeavesOutHasItsDefault) {
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

TEST(StartRequest, BadRequestsAreRefusedByName) {
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
      {R"({"target":{"pids":[0]}})", ErrorCode::kInvalidArgument, "invalid pid 0"},
      {R"({"target":{"pids":[1,-1]}})", ErrorCode::kInvalidArgument, "target.pids[1]: expected"},
      {R"({"target":{"pids":[4294967296]}})", ErrorCode::kInvalidArgument, "target.pids[0]"},
      {R"({"target":{"pids":[4294967295]}})", ErrorCode::kInvalidArgument,
       "invalid pid 4294967295"},
      {R"({"target":{"pids":[1.5]}})", ErrorCode::kInvalidArgument, "target.pids[0]"},
      {R"({"target":{"comms":[""]}})", ErrorCode::kInvalidArgument, "empty"},
      {R"({"target":{"comms":["sixteen-bytes-xy"]}})", ErrorCode::kInvalidArgument, "15 bytes"},
      {R"({"target":{"comms":["a\u0000b"]}})", ErrorCode::kInvalidArgument, "NUL"},
      {R"({"target":{"uids":[4294967295]}})", ErrorCode::kInvalidArgument,
       "invalid uid 4294967295"},
      {R"({"target":{"all":true,"pids":[5]}})", ErrorCode::kInvalidArgument, "excludes"},
      {"null", ErrorCode::kInvalidArgument, "expected an object"},
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
      {R"({"target":{"all":true},"duration_ms":31622400001})", ErrorCode::kInvalidArgument,
       "duration_ms"},
      {R"({"target":{"all":true},"lease_ms":18446744073709551615})", ErrorCode::kInvalidArgument,
       "lease_ms"},
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

TEST(StartRequest, TheNumberOfTermsOfATargetIsLimited) {
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

TEST(StartRequest, TermsGivenTwiceCountOnce) {
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

TEST(StartRequest, ARequestCutAnywhereIsAnError) {
  const std::string whole = to_json(full_request());
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    EXPECT_FALSE(parse_start_request(std::string_view(whole).substr(0, cut))) << cut;
  }
}

TEST(StartRequest, TargetsAreDescribedForPeople) {
  TargetRequest target;
  target.pids = {1234, 7};
  target.comms = {"nginx"};
  EXPECT_EQ(describe(target), "pid 1234, pid 7, comm nginx");
  target.all = true;
  EXPECT_EQ(describe(target), "all");
}

TEST(StartRequest, AnErrorOfTheWholeBodyBeginsWithItsCause) {
  for (const char* body : {"null", "[]", "1"}) {
    EXPECT_EQ(parse_start_request(body).error().message, "expected an object") << body;
  }
}

}  // namespace
}  // namespace profd
