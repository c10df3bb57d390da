#include "formats/api/control_api.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

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

TEST(ControlApi, EveryMessageReadBackIsEqual) {
  EXPECT_EQ(*parse_session_info(to_json(a_session())), a_session());
  const std::vector<SessionInfo> sessions{a_session(), a_session()};
  EXPECT_EQ(*parse_session_list(to_json(sessions)), sessions);
  EXPECT_EQ(*parse_result_info(to_json(a_result())), a_result());
  EXPECT_EQ(started_json("5f2c01ab"), R"({"session":"5f2c01ab"})");
  EXPECT_EQ(*parse_started(started_json("5f2c01ab")), "5f2c01ab");
}

TEST(ControlApi, AnAnswerOfAWrongTypeIsAnError) {
  std::string result = to_json(a_result());
  result.replace(result.find("4711"), 4, "-1");
  const auto parsed = parse_result_info(result);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::kMalformed);
  EXPECT_NE(parsed.error().message.find("files[0].bytes"), std::string::npos);
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

}  // namespace
}  // namespace profd
