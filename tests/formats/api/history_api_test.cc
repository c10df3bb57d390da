#include "formats/api/history_api.h"

#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace profd {
namespace {

using ::testing::HasSubstr;

WindowShares a_window() {
  ProcessShare process;
  process.cpu_percent = 12.5;
  process.pid = 812;
  process.start_time_ns = 42;
  process.comm = "a\"b\x1b";
  process.unit = "nginx.service";
  process.samples = 9;
  process.user_samples = 8;
  process.complete_samples = 7;
  WindowShares window;
  window.window = "20260102T140500Z";
  window.started = "2026-01-02T14:05:00Z";
  window.ended = "2026-01-02T14:06:00Z";
  window.seconds = 59.5;
  window.cpu_percent = 12.5;
  window.samples = 9;
  window.lost = {{"ring_full", 3}};
  window.groups = {{.cpu_percent = 12.5,
                    .name = "nginx.service",
                    .is_unit = true,
                    .processes = 3,
                    .samples = 9}};
  window.processes = {process};
  return window;
}

TEST(HistoryApi, AnswersComeBackAsTheyWere) {
  const History history{.windows = {a_window(), WindowShares()}, .left_out = 7};
  EXPECT_EQ(*parse_history(to_json(history)), history);
  EXPECT_EQ(*parse_window_shares(to_json(a_window())), a_window());
  const WindowNames names{.windows = {"b"}, .removed = {"a"}};
  EXPECT_EQ(*parse_window_names(to_json(names)), names);
  const WindowNames of_an_older_daemon{.windows = {"b"}};
  EXPECT_EQ(*parse_window_names(R"({"windows":["b"]})"), of_an_older_daemon);
}

TEST(HistoryApi, RequestsComeBackAsTheyWere) {
  ExportRequest request;
  request.range = {.since_ms = 1'700'000'000'000, .until_ms = 1'700'000'060'000};
  EXPECT_EQ(*parse_export_request(to_json(request)), request);
  request.target.units = {"nginx.service"};
  request.target.containers = {"0123"};
  request.target.pids = {7};
  request.profile_only = true;
  request.event = "off-cpu";
  EXPECT_EQ(*parse_export_request(to_json(request)), request);
  HistoryRequest history{.range = request.range, .limit = 5};
  EXPECT_EQ(*parse_history_request(to_json(history)), history);
  history.target = request.target;
  history.sum = true;
  history.groups = 20;
  history.event = "off-cpu";
  EXPECT_EQ(*parse_history_request(to_json(history)), history);
}

// A daemon that does not know the member is asked for a directory as before.
TEST(HistoryApi, ARequestForADirectoryDoesNotHaveTheMemberOfTheProfileAlone) {
  EXPECT_THAT(to_json(ExportRequest()), testing::Not(HasSubstr("profile_only")));
  EXPECT_THAT(to_json(ExportRequest()), testing::Not(HasSubstr("event")));
}

TEST(HistoryApi, AnEmptyRequestIsAboutEverything) {
  EXPECT_EQ(*parse_export_request("{}"), ExportRequest());
  EXPECT_EQ(*parse_history_request("{}"), HistoryRequest());
}

TEST(HistoryApi, TheErrorOfAnInvalidRequestNamesTheReason) {
  const std::pair<const char*, const char*> exports[] = {
      {R"({"since_ms":2,"until_ms":1})", "range"},
      {R"({"since_ms":1,"until_ms":1})", "range"},
      {R"({"since_ms":-1})", "since_ms"},
      {R"({"until_ms":9007199254740993})", "until_ms"},
      {R"({"since":1})", "since"},
      {R"({"target":{"pids":[0]}})", "0"},
      {R"({"target":{"units":["a/b"]}})", "a/b"},
      {R"({"target":{"units":[""]}})", "unit"},
      {R"({"target":{"containers":[".."]}})", ".."},
      {R"({"target":{"containers":["1","2","3","4","5","6","7","8","9"]}})", "containers"},
      {R"({"target":{"unit":["a"]}})", "unit"},
      {R"({"event":"wall"})", "wall"},
      {"[]", "object"},
  };
  for (const auto& [json, named] : exports) {
    const auto request = parse_export_request(json);
    ASSERT_FALSE(request) << json;
    EXPECT_EQ(request.error().code, ErrorCode::kInvalidArgument) << json;
    EXPECT_THAT(request.error().message, HasSubstr(named)) << json;
  }
  for (const char* json :
       {R"({"limit":0})", R"({"limit":1001})", R"({"limit":"all"})", R"({"targets":{}})",
        R"({"since_ms":2,"until_ms":1})", R"({"groups":0})", R"({"groups":101})",
        R"({"limit":1000,"groups":11})", R"({"event":"runnable"})"}) {
    const auto request = parse_history_request(json);
    ASSERT_FALSE(request) << json;
    EXPECT_EQ(request.error().code, ErrorCode::kInvalidArgument) << json;
  }
  EXPECT_EQ(parse_export_request("{").error().code, ErrorCode::kMalformed);
}

TEST(HistoryApi, TheNameOfAWindowHasItsStart) {
  // `date -u -d 2026-01-02T12:00:05Z +%s`
  const std::chrono::system_clock::time_point start{std::chrono::seconds(1767355205)};
  EXPECT_EQ(start_of_window("20260102T120005Z"), start);
  EXPECT_EQ(start_of_window("20260102T120005Z-2"), start);
  EXPECT_EQ(start_of_window("20260102T120005Z-999"), start);
  EXPECT_TRUE(start_of_window("19700101T000000Z"));
  EXPECT_TRUE(start_of_window("21991231T235959Z"));
  for (const char* name : {"", "a", "20260102T120005", "20260102T120005Zx", "20260102T120005Z-",
                           "20260102T120005Z-1000", "2026010xT120005Z", "20261302T120005Z",
                           "20260230T120005Z", "20260102T240005Z", "20260102T126005Z",
                           "20260102T120060Z", "19691231T235959Z", "22000101T000000Z"}) {
    EXPECT_FALSE(start_of_window(name)) << name;
  }
}

TEST(HistoryApi, UnitsAreNamedInFullAndOnce) {
  const auto request = parse_export_request(R"({"target":{"units":["nginx","nginx.service"]}})");
  ASSERT_TRUE(request);
  EXPECT_THAT(request->target.units, ::testing::ElementsAre("nginx.service"));
}

}  // namespace
}  // namespace profd
