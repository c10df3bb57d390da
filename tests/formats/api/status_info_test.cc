#include "formats/api/status_info.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace profd {
namespace {

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
  status.children_not_followed = 5;
  status.mapping_records = 3;
  status.mapping_records_lost = {{"user_limit", 7}};
  status.process_records_lost = 8;
  status.unmaps = {.reported = 21, .lost = 22};
  status.results_bytes = 4;
  status.results_refused = 23;
  status.parsers = {.processes = 2, .cpu_seconds = 0.25, .rss_bytes = 8000000};
  status.connections = {.open = 17,
                        .refused = 18,
                        .starved = 19,
                        .slow = 20,
                        .unread = 61,
                        .doors_replaced = 54,
                        .doors_stuck = 55};
  status.cpu_gaps = {.count = 1, .seconds = 1.5};
  status.unwinding = {.user_samples = 50,
                      .complete_samples = 47,
                      .incomplete = {{"no_row", 2}, {"window", 1}},
                      .worst = {{.path = "/opt/x", .reason = "no_row", .samples = 2}},
                      .tables = {.count = 5,
                                 .files = 6,
                                 .rows = 700,
                                 .bytes = 3000,
                                 .arena_bytes = 4096,
                                 .cap_bytes = 8192,
                                 .rules = 9,
                                 .evicted = 10,
                                 .loading = 11,
                                 .refused = {{"malformed", 12}}},
                      .deferred = {.waiting = 13, .done = 14, .abandoned = 15},
                      .parser_restarts = 16};
  status.jit = {.processes = 25,
                .files = 26,
                .functions = 27,
                .bytes = 28,
                .bytes_read = 29,
                .events = 30,
                .forgotten = 31,
                .refused = {{"link", 32}},
                .malformed = {{"bad_name", 33}}};
  status.interpreters = {
      .supported = true,
      .known = 62,
      .stacks = 63,
      .frames = 64,
      .processes = 65,
      .codes = 66,
      .bytes = 67,
      .announced = 68,
      .lost = {{"rate", 69}},
      .refused = {{"free_threaded", 70}},
      .files = {{.path = "/usr/bin/x", .runtime = "python 3.13.1", .verdict = "free_threaded"}}};
  status.names = {.samples = 41,
                  .fully_named = 42,
                  .sources = {{"symtab", 43}},
                  .cached_files = 44,
                  .cached_bytes = 45,
                  .looked_up = 50,
                  .read_back = 53,
                  .debug_files = {.found = {{"cache", 51}}, .refused = {{"late", 52}}},
                  .lines = {.answered = 46,
                            .addresses_lost = {{"no_lines", 47}},
                            .files_refused = {{"zstd", 48}},
                            .cpu_seconds = 0.5,
                            .failures = 49}};
  status.xray = {.apps = 34,
                 .apps_refused = 35,
                 .doors_replaced = 56,
                 .closers_replaced = 57,
                 .doors_stuck = 58,
                 .sessions = 36,
                 .failed = 37,
                 .ended = {{"app_flood", 9}},
                 .traces = 38,
                 .traces_refused = 39,
                 .traces_missed = 40};
  status.continuous = {.enabled = true,
                       .frequency_hz = 19,
                       .window_seconds = 60,
                       .windows = 21,
                       .hours = 50,
                       .disk_bytes = 23,
                       .oldest = "2026-11-20T14:05:00Z",
                       .last_written = "2026-11-20T14:06:00Z",
                       .waiting = 1,
                       .malformed = 2,
                       .failed = {{"no_space", 3}},
                       .lost_samples = 24,
                       .over_share_samples = 22};
  status.users = {{.uid = 1000, .refused = {{"connections.refused", 59}}},
                  {.uid = std::nullopt, .refused = {{"POST /v1/sessions: too_large", 60}}}};
  return status;
}

TEST(StatusInfo, ReadBackIsEqual) {
  EXPECT_EQ(*parse_status_info(to_json(a_status())), a_status());
}

TEST(StatusInfo, WindowsOfOffCpuComeBackAsTheyWere) {
  StatusInfo status = a_status();
  status.continuous_off_cpu = status.continuous;
  status.continuous_off_cpu->frequency_hz = 0;
  EXPECT_EQ(*parse_status_info(to_json(status)), status);
}

TEST(StatusInfo, TextIsAsTheDocumentSays) {
  EXPECT_EQ(
      to_json(a_status()),
      R"({"version":"0.1.0","pid":77,"uptime_seconds":60,"cpu_seconds":0.125,"rss_bytes":40000000,)"
      R"("sessions":2,"ledger":{"taken":100,"sent":80,"idle":10,"filtered":5,"lost":{"ring_full":4},)"
      R"("difference":1},"outside_namespace":1,"received":79,"skipped_estimate":2,)"
      R"("children_not_followed":5,"mapping_records":3,"mapping_records_lost":{"user_limit":7},)"
      R"("process_records_lost":8,)"
      R"("unmaps":{"reported":21,"lost":22},"results_bytes":4,"results_refused":23,)"
      R"("parsers":{"processes":2,"cpu_seconds":0.25,"rss_bytes":8000000},)"
      R"("connections":{"open":17,"refused":18,"starved":19,"slow":20,"unread":61,)"
      R"("doors_replaced":54,"doors_stuck":55},)"
      R"("cpu_gaps":{"count":1,"seconds":1.5},)"
      R"("unwinding":{"user_samples":50,"complete_samples":47,"incomplete":{"no_row":2,"window":1},)"
      R"("worst":[{"path":"/opt/x","reason":"no_row","samples":2}],)"
      R"("tables":{"count":5,"files":6,"rows":700,"bytes":3000,"arena_bytes":4096,"cap_bytes":8192,)"
      R"("rules":9,"evicted":10,"loading":11,"refused":{"malformed":12}},)"
      R"("deferred":{"waiting":13,"done":14,"abandoned":15},"parser_restarts":16},)"
      R"("jit":{"processes":25,"files":26,"functions":27,"bytes":28,"bytes_read":29,"events":30,)"
      R"("forgotten":31,"refused":{"link":32},"malformed":{"bad_name":33}},)"
      R"("interpreters":{"supported":true,"known":62,"stacks":63,"frames":64,"processes":65,)"
      R"("codes":66,"bytes":67,"announced":68,"lost":{"rate":69},"refused":{"free_threaded":70},)"
      R"("files":[{"path":"/usr/bin/x","runtime":"python 3.13.1","verdict":"free_threaded"}]},)"
      R"("names":{"samples":41,"fully_named":42,"sources":{"symtab":43},"cached_files":44,)"
      R"("cached_bytes":45,"looked_up":50,"read_back":53,"debug_files":{"found":{"cache":51},"refused":{"late":52}},)"
      R"("lines":{"answered":46,"addresses_lost":{"no_lines":47},)"
      R"("files_refused":{"zstd":48},"cpu_seconds":0.5,"failures":49}},)"
      R"("xray":{"apps":34,"apps_refused":35,"doors_replaced":56,"closers_replaced":57,)"
      R"("doors_stuck":58,"sessions":36,"failed":37,"ended":{"app_flood":9},"traces":38,)"
      R"("traces_refused":39,"traces_missed":40},)"
      R"("continuous":{"enabled":true,"frequency":19,"window_seconds":60,"windows":21,)"
      R"("hours":50,"disk_bytes":23,"oldest":"2026-11-20T14:05:00Z","last_written":"2026-11-20T14:06:00Z",)"
      R"("waiting":1,"malformed":2,"failed":{"no_space":3},"lost_samples":24,)"
      R"("over_share_samples":22},)"
      R"("users":[{"uid":1000,"refused":{"connections.refused":59}},)"
      R"({"uid":null,"refused":{"POST /v1/sessions: too_large":60}}]})");
}

TEST(StatusInfo, HasTheCountsOfBlocksOnceThereWasASessionOfThem) {
  StatusInfo status = a_status();
  EXPECT_EQ(to_json(status).find("off_cpu"), std::string::npos);
  status.off_cpu = StatusInfo::OffCpu{.threads_watched = 70,
                                      .threads_refused = 71,
                                      .walks = 72,
                                      .walks_by_chance = 73,
                                      .scale = 74,
                                      .ends_lost = 75,
                                      .open_blocks = 76,
                                      .open_bytes = 77};
  const std::string json = to_json(status);
  EXPECT_NE(json.find(R"("off_cpu":{"threads_watched":70,"threads_refused":71,"walks":72,)"
                      R"("walks_by_chance":73,"scale":74,"ends_lost":75,)"
                      R"("open_blocks":76,"open_bytes":77},"users":)"),
            std::string::npos)
      << json;
  EXPECT_EQ(*parse_status_info(json), status);
}

TEST(StatusInfo, HasNoUsersWhereThereAreNone) {
  StatusInfo status = a_status();
  status.users.clear();
  const std::string json = to_json(status);
  EXPECT_EQ(json.find("users"), std::string::npos);
  EXPECT_EQ(*parse_status_info(json), status);
}

TEST(StatusInfo, ADifferenceMayBeNegative) {
  StatusInfo status = a_status();
  status.ledger.taken = 0;
  EXPECT_EQ(status.ledger.difference(), -99);
}

TEST(StatusInfo, UnknownMembersOfAnAnswerAreSkipped) {
  std::string status = to_json(a_status());
  status.insert(1, R"("new":{"deep":[1,2]},)");
  EXPECT_EQ(*parse_status_info(status), a_status());
}

}  // namespace
}  // namespace profd
