// The data of the page: the numbers are those of Go's pprof and of the subcommands, names are text.

#include "ctl/web/web_views.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>

#include "ctl/page/page_files.h"
#include "formats/api/session_summary.h"
#include "formats/base/utf8_text.h"
#include "formats/profile/pprof_order.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "formats/profile/sample_times.h"
#include "tests/ctl/profctl_fixture.h"
#include "tests/ctl/views/block_profile.h"
#include "tests/ctl/views/flame_file.h"
#include "tests/ctl/views/pprof_traces.h"
#include "tests/ctl/views/random_profile.h"
#include "tests/ctl/web/web_client.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using testing::HasSubstr;
using testing::Not;

class WebViewsTest : public test::ProfctlTest {
 protected:
  WebViewsTest() { random_.add(400); }

  std::string write_random(const std::string& name = "a.pb.gz") {
    return scratch_.write(name, encode_pprof_gzip(random_.profile()));
  }

  // The page of a source.
  WebViews& views(const std::string& source) {
    if (!views_)
      views_.emplace(client_, SourceRequest{.name = source, .range = {}, .target = {}}, "");
    return *views_;
  }
  WebReply ask(const std::string& source, const std::string& target) {
    return views(source).answer(WebRequest::parse(target).value());
  }
  json::value data(const std::string& source, const std::string& target) {
    const WebReply reply = ask(source, target);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json::parse(reply.body);
  }
  json::value data_of_another(const std::string& source, const std::string& target) {
    WebViews other(client_, SourceRequest{.name = source, .range = {}, .target = {}}, "");
    return json::parse(other.answer(WebRequest::parse(target).value()).body);
  }
  json::value profctl_json(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(ran.out.empty() ? "null" : ran.out);
  }

  Client client_{server_.socket().string()};
  test::ScratchDirectory scratch_;
  test::RandomProfile random_{11};
  std::optional<WebViews> views_;
};

TEST_F(WebViewsTest, TheTableHasTheSumsOfAllTraces) {
  const std::string file = write_random();
  const json::value table = data(file, "/api/table?names=full");
  EXPECT_EQ(test::row_sums(table.at("rows")), test::function_sums(test::traces_of(file)));
  EXPECT_EQ(table, profctl_json({"report", file, "--names", "full"}));
}

// Finds a page that has nearly all of its time in threads that wait for work.
TEST_F(WebViewsTest, IdleThreadsAreLeftOutUnlessTheyAreAskedFor) {
  test::BlockProfile blocks;  // of a minute
  blocks.add({"take_lock"}, {.wait = "futex"}, 100, 2 * test::kSecond);
  blocks.add({"event_loop"}, {.wait = "epoll"}, 60, 300 * test::kSecond);
  const std::string file = scratch_.write("waits.pb.gz", encode_pprof_gzip(blocks.profile()));
  const json::value left = data(file, "/api/flame");
  EXPECT_EQ(left.at("all").at("cpu_ns").as_int64(), 2 * test::kSecond);
  EXPECT_TRUE(left.at("idle").as_bool());
  EXPECT_THAT(left.at("scope").as_string().c_str(), HasSubstr("idle: 5 min, as 5 threads"));
  const json::value all = data(file, "/api/flame?idle=1");
  EXPECT_EQ(all.at("all").at("cpu_ns").as_int64(), 302 * test::kSecond);
  EXPECT_FALSE(all.as_object().contains("idle"));
  EXPECT_EQ(data(file, "/api/table?idle=1").at("rows").as_array().size(), 2U);
}

TEST_F(WebViewsTest, TheTableOfATargetAndFilterIsThatOfReport) {
  const std::string file = write_random();
  EXPECT_EQ(data(file, "/api/table?unit=unit1"), profctl_json({"report", file, "-u", "unit1"}));
  EXPECT_EQ(data(file, "/api/table?pid=102&pid=103&focus=work_3"),
            profctl_json({"report", file, "-p", "102,103", "--focus", "work_3"}));
  EXPECT_EQ(data(file, "/api/table?hide_name=ns::work_4&focus_name=ns::work_5"),
            profctl_json({"report", file, "--hide", "^ns::work_4$", "--focus", "^ns::work_5$"}));
}

TEST_F(WebViewsTest, TheFlameGraphHasThePathsOfAllTraces) {
  const std::string file = write_random();
  EXPECT_EQ(test::paths_of_data(data(file, "/api/flame?names=full")),
            test::paths_of(test::traces_of(file)));
}

TEST_F(WebViewsTest, CallersAndCalleesAreThoseOfReport) {
  const std::string file = write_random();
  const auto expected =
      profctl_json({"report", file, "--callers", "ns::work_7", "--callees", "ns::work_7"});
  for (const char* const direction : {"callers", "callees"}) {
    const json::value tree =
        data(file, std::string("/api/flame?around=ns::work_7&direction=") + direction);
    const auto& nodes = expected.at(direction).at("nodes").as_array();
    const auto depths = json::value_to<std::vector<std::int64_t>>(tree.at("nodes").at("depth"));
    const auto paths = test::paths_of_data(tree);
    ASSERT_EQ(depths.size(), nodes.size()) << direction;
    EXPECT_EQ(paths.at("/ns::work_7"), nodes.at(0).at("total").at("samples").as_int64());
  }
}

// A path of names as ctl/page/tree.js has it: FNV-1a in base 36.
std::string zoom_of(const std::vector<std::string>& names) {
  std::string path;
  for (const std::string& name : names) {
    std::uint32_t hash = 0x811c9dc5;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193;
    std::array<char, 8> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), hash, 36).ptr;
    path += (path.empty() ? "" : ".") + std::string(digits.data(), end);
  }
  return path;
}

// The page gets 10,000 nodes; a part of the tree has more of them, and the same sums.
TEST_F(WebViewsTest, AZoomShowsWhatWasLeftOut) {
  random_.add(4'000);
  const std::string file = write_random();
  const json::value whole = data(file, "/api/flame?names=full");
  EXPECT_EQ(whole.at("nodes").at("depth").as_array().size(), 10'000);
  EXPECT_GT(whole.at("left_out").as_int64(), 0);
  const json::value part = data(file, "/api/flame?names=full&zoom=" + zoom_of({"ns::work_8"}));
  const auto expected = test::paths_of(test::traces_of(file));
  for (const auto& [path, samples] : test::paths_of_data(part)) {
    EXPECT_EQ(samples, expected.at(path)) << path;
    EXPECT_TRUE(path.starts_with("/ns::work_8")) << path;
  }
  const auto below = [](const std::map<std::string, std::int64_t>& paths) {
    return std::ranges::count_if(
        paths, [](const auto& one) { return one.first.starts_with("/ns::work_8/"); });
  };
  EXPECT_GT(below(test::paths_of_data(part)), below(test::paths_of_data(whole)));
  EXPECT_EQ(data(file, "/api/flame?names=full&zoom=gone"), whole);
}

TEST_F(WebViewsTest, ASearchCountsEachSampleOnce) {
  const std::string file = scratch_.write("a.folded",
                                          "main;serve;parse 10\n"
                                          "main;serve;parse;serve 7\n"
                                          "main;idle 3\n"
                                          "other;serve 20\n");
  const auto matched = [&](const std::string& fields) {
    const json::value found = data(file, "/api/search?" + fields);
    return found.at("matched").at("samples").as_int64();
  };
  EXPECT_EQ(matched("search=^serve$"), 37);
  EXPECT_EQ(matched("search=serve|idle"), 40);
  EXPECT_EQ(matched("search=^Serve$"), 0);
  EXPECT_EQ(matched("search=nosuch"), 0);
  // Of the node that has the whole width: matches above it count as well.
  EXPECT_EQ(matched("search=serve&zoom=" + zoom_of({"main"})), 17);
  EXPECT_EQ(matched("search=serve&zoom=" + zoom_of({"main", "idle"})), 0);
  EXPECT_EQ(matched("search=main&zoom=" + zoom_of({"main", "idle"})), 3);
  EXPECT_EQ(matched("search=parse&zoom=" + zoom_of({"main", "serve", "parse", "serve"})), 7);
  // What is not there ends the path.
  EXPECT_EQ(matched("search=serve&zoom=" + zoom_of({"main", "gone", "serve"})), 17);
  EXPECT_EQ(matched("search=serve&zoom=" + zoom_of({"serve"})), 37);
  EXPECT_EQ(matched("search=serve&zoom=" + zoom_of({"main"}) + ".-.x"), 17);
  // Within filters.
  EXPECT_EQ(matched("search=main&focus_name=idle"), 3);
  EXPECT_EQ(matched("search=parse&hide_name=parse"), 0);
  EXPECT_EQ(ask(file, "/api/search").status, 400);
  EXPECT_EQ(ask(file, "/api/search?q=serve").status, 400);
  EXPECT_EQ(ask(file, "/api/search?search=(").status, 400);
  EXPECT_EQ(ask(file, "/api/search?search=a(?=b)").status, 400);
}

// The sum over the 10,000 nodes that the page gets would be too small.
TEST_F(WebViewsTest, ASearchCountsSamplesOfNodesThatWereLeftOut) {
  random_.add(4'000);
  const std::string file = write_random();
  EXPECT_GT(data(file, "/api/flame?names=full").at("left_out").as_int64(), 0);
  std::int64_t expected = 0;
  std::int64_t below = 0;
  for (const test::Trace& trace : test::traces_of(file)) {
    if (std::ranges::find(trace.stack, std::string("ns::work_7")) == trace.stack.end()) continue;
    expected += trace.samples;
    if (trace.stack.back() == "ns::work_8") below += trace.samples;
  }
  ASSERT_GT(below, 0);
  const std::string target = "/api/search?names=full&search=work_7$";
  const json::value found = data(file, target);
  EXPECT_EQ(found.at("matched").at("samples").as_int64(), expected);
  EXPECT_EQ(found.at("matched").at("cpu_ns").as_int64(), expected * test::RandomProfile::kPeriodNs);
  const json::value part = data(file, target + "&zoom=" + zoom_of({"ns::work_8"}));
  EXPECT_EQ(part.at("matched").at("samples").as_int64(), below);
}

TEST_F(WebViewsTest, TheListHasTheSumsOfUnitsAndProcesses) {
  const std::string file = write_random();
  const auto traces = test::traces_of(file);
  std::map<std::string, std::int64_t> units;
  std::map<std::string, std::int64_t> processes;
  const json::value list = data(file, "/api/list");
  for (const json::value& row : list.at("rows").as_array()) {
    const std::int64_t samples = row.at("samples").as_int64();
    if (row.at("kind").as_string() == "unit") {
      const auto name = json::value_to<std::string>(row.at("text"));
      units[name == "(no unit)" ? "-" : name] = samples;
    } else {
      processes[json::value_to<std::string>(row.at("target"))] += samples;
    }
  }
  EXPECT_EQ(units, test::label_sums(traces, "unit"));
  std::map<std::string, std::int64_t> expected;
  for (const auto& [pid, samples] : test::label_sums(traces, "pid")) {
    expected["pid:" + pid] = samples;
  }
  EXPECT_EQ(processes, expected);
}

TEST_F(WebViewsTest, LinesHaveTheSumsOfReport) {
  const std::string source =
      scratch_.write("code.cc", "// a\n\tint main() {\n  work();\n}\n// e\n// f\n// g\n");
  PprofProfile profile(std::vector<PprofValueType>{{"samples", "count"}});
  profile.default_sample_type = "samples";
  profile.period_type = {"samples", "count"};
  const auto name = profile.add_text("main");
  const auto function =
      profile.add_function({.name = name, .system_name = name, .file = profile.add_text(source)});
  for (const std::int64_t line : {2, 3}) {
    const std::vector<PprofLine> lines{{.function = function, .line = line}};
    const std::vector<std::uint32_t> stack{profile.add_location({}, lines)};
    profile.add_sample({.labels = profile.add_labels({}), .stack = profile.add_stack(stack)},
                       std::vector<std::int64_t>{line * 10});
  }
  const std::string file = scratch_.write("a.pb.gz", encode_pprof_gzip(profile));
  const json::value lines = data(file, "/api/lines?around=main");
  std::map<std::int64_t, std::pair<std::int64_t, std::string>> found;
  for (const json::value& row : lines.at("lines").as_array()) {
    found[row.at("line").as_int64()] = {row.at("self").at("samples").as_int64(),
                                        json::value_to<std::string>(row.at("text"))};
  }
  EXPECT_EQ(found, (std::map<std::int64_t, std::pair<std::int64_t, std::string>>{
                       {1, {0, "// a"}},
                       {2, {20, "    int main() {"}},
                       {3, {30, "  work();"}},
                       {4, {0, "}"}},
                       {5, {0, "// e"}},
                       {6, {0, "// f"}}}));
  EXPECT_EQ(lines.at("shown").at("samples").as_int64(), 50);
}

TEST_F(WebViewsTest, TheWorthOfAFileSaysWhatIsKnown) {
  const json::value worth = data(write_random(), "/api/worth");
  const auto parts = json::value_to<std::vector<std::string>>(worth.at("parts"));
  EXPECT_THAT(parts, testing::ElementsAre(HasSubstr(" samples of cpu"),
                                          HasSubstr("innermost frame without a name 0.0 %")));
}

// A recording of 99 samples, of which one was lost, and 80 user stacks, of which two end too early.
SessionSummary a_summary_with_losses() {
  SessionSummary summary;
  summary.session = "5f2c01ab";
  summary.started = "2026-01-02T03:04:05Z";
  summary.seconds = 5;
  summary.event = "cpu";
  summary.period_us = 10101;
  summary.ledger = {.taken = 100, .written = 99, .lost = {{"ring_full", 1}}};
  for (const char* const reason : {"no_row", "window"}) {
    ProfileSummary profile;
    profile.pid = 7;
    profile.comm = "work";
    profile.path = "work.7.prof";
    profile.user_samples = 40;
    profile.incomplete = {{reason, 1}};
    summary.profiles.push_back(profile);
  }
  return summary;
}

// In the process of the caller, and across the sandbox.
TEST_F(WebViewsTest, TheWorthOfARecordingHasWhatItLost) {
  ASSERT_EQ(::geteuid(), 0U) << "needs root: it gives files away";
  PprofProfile profile = random_.profile();
  profile.own_data = to_json(a_summary_with_losses());
  const std::string file = scratch_.write("lost.pb.gz", encode_pprof_gzip(profile));
  const std::string directory = scratch_.path() / "out";
  SessionSummary& summary = service_.result.summary;
  summary.ledger = a_summary_with_losses().ledger;
  for (ProfileSummary& one : summary.profiles) {
    one.user_samples = 40;
    one.incomplete = {{one.pid == 1 ? "no_row" : "window", 1}};
  }
  ASSERT_EQ(run({"stop", "5f2c01ab", "-o", directory}).code, 0);
  const auto parts_of = [&](const std::string& source) {
    return json::value_to<std::vector<std::string>>(
        data_of_another(source, "/api/worth").at("parts"));
  };
  constexpr uid_t kAnother = 12345;
  for (const std::string& source : {file, directory}) {
    for (const bool is_of_another : {false, true}) {
      const std::string summary_file = source == file ? file : directory + "/session.json";
      if (is_of_another) {
        ASSERT_EQ(::chown(summary_file.c_str(), kAnother, kAnother), 0);
      }
      EXPECT_THAT(parts_of(source),
                  testing::IsSupersetOf({std::string("lost 1.0 % of the recording: 1 ring_full"),
                                         std::string("incomplete stacks 2.5 % of the recording: "
                                                     "1 no_row, 1 window")}))
          << source << is_of_another;
    }
  }
}

// The reasons of a recording are what its writer likes.
TEST_F(WebViewsTest, TheReasonsOfARecordingAreText) {
  SessionSummary summary = a_summary_with_losses();
  summary.ledger.lost = {{std::string(5000, 'x') + "<b>\x1b", 1}, {"\xe2\x80\xae", 2}};
  PprofProfile profile = random_.profile();
  profile.own_data = to_json(summary);
  const std::string file = scratch_.write("lost.pb.gz", encode_pprof_gzip(profile));
  const json::value worth = data(file, "/api/worth");
  for (const json::value& part : worth.at("parts").as_array()) {
    const auto text = json::value_to<std::string>(part);
    EXPECT_LE(text.size(), kMaxPrintableBytes);
    EXPECT_TRUE(is_printable(text));
  }
}

TEST_F(WebViewsTest, ALargeTextAboutLossesIsNotRead) {
  SessionSummary summary = a_summary_with_losses();
  summary.ledger.lost = {{std::string(std::size_t{5} << 20, 'x'), 1}};
  PprofProfile profile = random_.profile();
  profile.own_data = to_json(summary);
  const std::string file = scratch_.write("large.pb.gz", encode_pprof_gzip(profile));
  const json::value worth = data(file, "/api/worth");
  const auto parts = json::value_to<std::vector<std::string>>(worth.at("parts"));
  EXPECT_THAT(parts, testing::ElementsAre(HasSubstr(" samples of cpu"),
                                          HasSubstr("innermost frame without a name 0.0 %")));
}

std::string a_profile_with(const std::vector<std::string>& names) {
  PprofProfile profile(std::vector<PprofValueType>{{"samples", "count"}});
  profile.default_sample_type = "samples";
  profile.period_type = {"samples", "count"};
  const auto labels = profile.add_labels({{.key = profile.add_text("pid"), .number = 7},
                                          {.key = profile.add_text("comm"),
                                           .text = profile.add_text("<b>\x1b\xe2\x80\xae"
                                                                    "comm")}});
  for (const std::string& one : names) {
    const auto name = profile.add_text(one);
    const std::vector<PprofLine> lines{
        {.function = profile.add_function(
             {.name = name, .system_name = name, .file = profile.add_text("/no/" + one)}),
         .line = 3}};
    const std::vector<std::uint32_t> stack{profile.add_location({}, lines)};
    profile.add_sample({.labels = labels, .stack = profile.add_stack(stack)},
                       std::vector<std::int64_t>{10});
  }
  return encode_pprof_gzip(profile);
}

// Each answer is JSON of printable text, whatever the names have.
TEST_F(WebViewsTest, HostileNamesAreText) {
  const std::vector<std::string> names = {"</script><script>alert(1)</script>",
                                          "a\xe2\x80\xae"
                                          "b",
                                          "bad\xff\xfe", std::string(1 << 20, 'x'),
                                          "line\nbreak\x07"};
  const std::string file = scratch_.write("a.pb.gz", a_profile_with(names));
  for (const char* const target :
       {"/api/flame?names=full", "/api/table?names=full", "/api/list", "/api/worth",
        "/api/lines?around=bad%EF%BF%BD%EF%BF%BD", "/api/diff?names=full", "/api/flame"}) {
    const WebReply reply = ask(file, target);
    ASSERT_EQ(reply.status, 200) << target << reply.body;
    EXPECT_EQ(reply.type, "application/json");
    EXPECT_LT(reply.body.size(), 100'000) << target;
    EXPECT_THAT(reply.body, Not(HasSubstr("\xe2\x80\xae"))) << target;
    EXPECT_THAT(reply.body, Not(HasSubstr("\\n"))) << target;
    EXPECT_THAT(reply.body, Not(HasSubstr("\\u001b"))) << target;
    (void)json::parse(reply.body);
  }
  // What is shown can be chosen, too.
  const json::value focused = data(file, "/api/table?names=full&focus_name=line%3Fbreak%3F");
  EXPECT_EQ(focused.at("rows").as_array().size(), 1U);
  EXPECT_EQ(focused.at("shown").at("samples").as_int64(), 10);
}

TEST_F(WebViewsTest, ExportsHaveAllSamples) {
  const std::string file = write_random();
  const std::int64_t all = data(file, "/api/table").at("all").at("samples").as_int64();
  const auto exported = [&](const std::string& form, const std::string& name) {
    const WebReply reply = ask(file, "/api/export?form=" + form);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_FALSE(reply.file_name.empty());
    return scratch_.write(name, reply.body);
  };
  const auto pprof = exported("pprof", "e.pb.gz");
  EXPECT_EQ(test::function_sums(test::traces_of(pprof)),
            test::function_sums(test::traces_of(file)));
  for (const auto& [form, name] :
       {std::pair("folded", "e.folded"), std::pair("pprof", "e.pb.gz")}) {
    EXPECT_EQ(profctl_json({"report", exported(form, name)}).at("all").at("samples").as_int64(),
              all);
  }
  const auto tar = exported("gperftools", "e.tar");
  (void)test::output_of("cd " + scratch_.path().string() + " && tar xf " + tar.string());
  // Both find the names in the second file, from the folder of the first.
  const std::string there = "cd " + scratch_.path().string() + " && ";
  const std::string sum = std::to_string(all);
  EXPECT_THAT(test::output_of(there + "HOME=/nonexistent " + GO_PPROF_BINARY +
                              " -sample_index=samples -top profile.prof 2>&1"),
              testing::AllOf(HasSubstr(sum + " total"), HasSubstr("work_7")));
  EXPECT_THAT(test::output_of(there + "google-pprof --text profile.names.so profile.prof 2>&1"),
              testing::AllOf(HasSubstr(sum + " samples"), HasSubstr("work_7")));
  EXPECT_THAT(ask(file, "/api/export?form=html").body, HasSubstr("<!DOCTYPE html>"));
  EXPECT_THAT(ask(file, "/api/export?form=svg").body, HasSubstr("<svg"));
  EXPECT_THAT(ask(file, "/api/export?form=speedscope").body, HasSubstr("speedscope"));
  EXPECT_EQ(ask(file, "/api/export?form=exe").status, 400);
}

TEST_F(WebViewsTest, WhatMakesNoSenseIsRefused) {
  const std::string file = write_random();
  for (const char* const target :
       {"/api/table?since=x", "/api/table?since=5&until=5", "/api/table?pid=x", "/api/table?pid=-1",
        "/api/table?pid=", "/api/table?focus=(", "/api/table?by=color", "/api/diff?base_since=9e9",
        "/debug/pprof/profile?seconds=99999", "/api/table?cgroup=a"}) {
    EXPECT_EQ(ask(file, target).status, 400) << target;
  }
  for (const char* const target : {"/nothing", "/../web_views.cc", "/api", "/api/table/",
                                   "/api/table?pid=999", "/api/flame?around=nosuch"}) {
    EXPECT_EQ(ask(file, target).status, 404) << target;
  }
}

TEST_F(WebViewsTest, ThePageHasNoScriptOrStyleOfItsOwn) {
  const WebReply page = ask(write_random(), "/");
  EXPECT_THAT(page.type, HasSubstr("text/html"));
  EXPECT_THAT(page.body, HasSubstr("<script type=\"module\" src=\"web.js\"></script>"));
  EXPECT_THAT(page.body, Not(HasSubstr("style=")));
  EXPECT_THAT(page.body, Not(HasSubstr("<style")));
  for (const PageFile& file : page_files()) {
    EXPECT_EQ(ask("", "/" + std::string(file.name)).body, file.bytes) << file.name;
  }
}

TEST_F(WebViewsTest, AFolderTakesThePlaceOfThePagesFiles) {
  scratch_.write("web.js", "// changed");
  WebViews changed(client_, {.name = write_random(), .range = {}, .target = {}}, scratch_.path());
  EXPECT_EQ(changed.answer(WebRequest::parse("/web.js").value()).body, "// changed");
  EXPECT_EQ(changed.answer(WebRequest::parse("/a.pb.gz").value()).status, 404);
}

WindowShares a_window(const std::string& name, const std::string& started, const std::string& ended,
                      double percent) {
  WindowShares window;
  window.window = name;
  window.started = started;
  window.ended = ended;
  window.seconds = 60;
  window.cpu_percent = percent;
  window.groups = {{percent / 2, "nginx.service", true, 1, 10}, {percent / 4, "cc1", false, 1, 5}};
  return window;
}

TEST_F(WebViewsTest, TheTimelineHasAllWindows) {
  service_.windows.windows = {a_window("a", "2026-01-02T03:00:00Z", "2026-01-02T03:01:00Z", 40),
                              a_window("b", "2026-01-02T03:01:00Z", "2026-01-02T03:02:00Z", 80)};
  const json::value timeline = data("", "/api/timeline?unit=nginx");
  EXPECT_EQ(timeline.at("windows").as_array().size(), 2U);
  const json::value& last = timeline.at("windows").as_array().at(1);
  EXPECT_EQ(last.at("since").as_int64(), 1'767'322'860'000);
  EXPECT_EQ(last.at("until").as_int64(), 1'767'322'920'000);
  EXPECT_EQ(last.at("cpu_percent").to_number<double>(), 80);
  EXPECT_EQ(last.at("top"), json::parse("[[0,40],[1,20]]"));
  EXPECT_EQ(timeline.at("groups").as_array().at(0).at("name").as_string(), "nginx.service");
  EXPECT_EQ(timeline.at("since").as_int64(), 1'767'322'800'000);
  EXPECT_EQ(timeline.at("until").as_int64(), 1'767'322'920'000);
  EXPECT_EQ(service_.asked.back().target.units, std::vector<std::string>{"nginx.service"});
}

// More than a window shows.
TEST_F(WebViewsTest, TheTimelineHasBarsOfTwentyGroups) {
  service_.windows.windows = {a_window("a", "2026-01-02T03:00:00Z", "2026-01-02T03:01:00Z", 90),
                              a_window("b", "2026-01-02T03:01:00Z", "2026-01-02T03:02:00Z", 90)};
  for (int i = 0; i < 18; ++i) {
    service_.windows.windows[1].groups.push_back({1, "small" + std::to_string(i), false, 1, 1});
  }
  const json::value timeline = data("", "/api/timeline");
  EXPECT_EQ(service_.asked.back().groups, 20U);
  const json::array& groups = timeline.at("groups").as_array();
  ASSERT_EQ(groups.size(), 20U);
  // The second window is the ninth of 16 columns.
  for (std::size_t i = 2; i < groups.size(); ++i) {
    EXPECT_EQ(groups[i].at("bars").as_string(), "        \u2588       ");
  }
  EXPECT_EQ(timeline.at("windows").at(1).at("top").as_array().size(), 8U);
}

// The daemon gives the same windows again and again: that ends.
TEST_F(WebViewsTest, TheTimelineEndsWithTheHistory) {
  service_.windows.windows = {a_window("a", "2026-01-02T03:00:00Z", "2026-01-02T03:01:00Z", 40)};
  service_.windows.left_out = 5;
  EXPECT_EQ(data("", "/api/timeline").at("windows").as_array().size(), 1U);
}

TEST_F(WebViewsTest, ARangeOfTheHistoryIsExportedOnceForAllViews) {
  const std::string bytes = encode_pprof_gzip(random_.profile());
  service_.files["profile.pb.gz"] = bytes;
  service_.result.named_profile = ResultFile{.path = "profile.pb.gz", .bytes = bytes.size()};
  const std::string range = "?since=1767322800000&until=1767322920000";
  for (const char* const view : {"/api/table", "/api/flame", "/api/list", "/api/worth"}) {
    (void)data("", view + range);
  }
  ASSERT_EQ(service_.exported.size(), 1U);
  EXPECT_EQ(service_.exported[0].range, (TimeRange{1'767'322'800'000, 1'767'322'920'000}));
  const json::value diff = data("", "/api/diff" + range + "&base_since=1&base_until=2");
  EXPECT_EQ(service_.exported.size(), 2U);
  EXPECT_EQ(diff.at("beyond").as_int64(), 0);
  (void)data("", "/api/table" + range + "&unit=unit1");
  EXPECT_EQ(service_.exported.size(), 3U);
  EXPECT_EQ(service_.exported[2].target.units, std::vector<std::string>{"unit1.service"});
  const auto parts =
      json::value_to<std::vector<std::string>>(data("", "/api/worth" + range).at("parts"));
  EXPECT_THAT(parts, testing::Contains("lost 0.2 %: 1 ring_full"));
}

// The daemon has no counts of them there, which are not zero.
TEST_F(WebViewsTest, TheWorthHasNoLostSamplesThatAreNotKnown) {
  const std::string bytes = encode_pprof_gzip(random_.profile());
  service_.files["profile.pb.gz"] = bytes;
  service_.result.named_profile = ResultFile{.path = "profile.pb.gz", .bytes = bytes.size()};
  TargetRequest unit;
  unit.units = {"unit1.service"};
  WebViews of_unit(client_, SourceRequest{.name = {}, .range = {}, .target = unit}, "");
  WebViews of_session(client_, SourceRequest{.name = "5f2c01ab", .range = {}, .target = {}}, "");
  WebViews of_all(client_, SourceRequest{.name = {}, .range = {}, .target = {}}, "");
  const auto worth_of = [](WebViews& views, const std::string& fields) {
    return views.answer(WebRequest::parse("/api/worth" + fields).value()).body;
  };
  EXPECT_THAT(worth_of(of_all, ""), HasSubstr("lost 0.2 %"));
  EXPECT_THAT(worth_of(of_session, "?pid=101"), HasSubstr("lost 0.2 %"));
  for (const std::string& worth :
       {worth_of(of_all, "?pid=101"), worth_of(of_unit, ""), worth_of(of_unit, "?pid=101")}) {
    EXPECT_THAT(worth, HasSubstr("incomplete stacks"));
    EXPECT_THAT(worth, Not(HasSubstr("lost")));
  }
}

TEST_F(WebViewsTest, AProfileForGosPprofIsASession) {
  const std::string bytes = encode_pprof_gzip(random_.profile());
  service_.files["profile.pb.gz"] = bytes;
  service_.result.named_profile = ResultFile{.path = "profile.pb.gz", .bytes = bytes.size()};
  const WebReply started = ask("", "/debug/pprof/profile?seconds=2&pid=1234");
  ASSERT_TRUE(started.then);
  EXPECT_EQ(started.wait, std::chrono::seconds(2));
  ASSERT_EQ(service_.started.size(), 1U);
  EXPECT_EQ(service_.started[0].target.pids, std::vector<std::uint32_t>{1234});
  EXPECT_GT(service_.started[0].lease_ms, 2000U);
  const WebReply ended = started.then();
  EXPECT_EQ(ended.body, bytes);
  EXPECT_THAT(service_.calls, testing::Contains("stop 5f2c01ab"));
  EXPECT_THAT(service_.calls, testing::Contains("remove 5f2c01ab"));
}

TEST_F(WebViewsTest, WhatIsNoSourceIsAnErrorAtOnce) {
  const Ran missing = run({"web", "--port", "0", scratch_.path() / "gone.pb.gz"});
  EXPECT_EQ(missing.code, kExitNotFound);
  const Ran empty = run({"view", "--port", "0", scratch_.write("empty.pb.gz", "")});
  EXPECT_EQ(empty.code, kExitFailed);
  EXPECT_THAT(empty.err, HasSubstr("hint: "));
  EXPECT_EQ(run({"web", "--port", "70000"}).code, kExitUsage);
  const Ran open = run({"web", "--listen", "0.0.0.0", "--port", "0"});
  EXPECT_EQ(open.code, kExitUsage);
  EXPECT_THAT(open.err, HasSubstr("ssh -L"));
  EXPECT_EQ(run({"web", "--tls-cert", "x", "--port", "0"}).code, kExitUsage);
  EXPECT_EQ(run({"web", "--tls-cert", "/no/x", "--tls-key", "/no/y"}).code, kExitFailed);
  const Ran absent = run_with_socket(scratch_.path() / "no-socket", {"web", "--port", "0"});
  EXPECT_EQ(absent.code, kExitNoDaemon);
}

// Else it would serve a page that nobody can find. "timeout" ends one that does.
TEST_F(WebViewsTest, AnAddressThatCanNotBePrintedEndsIt) {
  const std::string said =
      test::output_of("{ timeout 60 " PROFCTL " --socket " + server_.socket().string() +
                      " web --port 0 " + write_random() + " >/dev/full; echo status $?; }");
  EXPECT_EQ(said, "profctl: could not write to the standard output\nstatus 1\n");
}

TEST_F(WebViewsTest, TheAddressIsJsonWhereThatIsAskedFor) {
  const std::string pipe = scratch_.path() / "pipe";
  const std::string said =
      test::output_of("mkfifo " + pipe + "; timeout 60 " PROFCTL " --socket " +
                      server_.socket().string() + " web --json --port 0 " + write_random() + " >" +
                      pipe + " & read -r line <" + pipe + "; kill $!; printf '%s' \"$line\"");
  const json::value answer = json::parse(said);
  ASSERT_EQ(answer.as_object().size(), 1U);
  const auto url = json::value_to<std::string>(answer.at("url"));
  EXPECT_THAT(url, testing::StartsWith("http://127.0.0.1:"));
  EXPECT_THAT(url, HasSubstr("/?token="));
}

TEST_F(WebViewsTest, AnotherPortThanTheOneAskedForIsNamed) {
  const test::RunningWeb other([](const WebRequest&) { return WebReply{}; });
  const std::string said = test::output_of(
      "{ timeout 60 " PROFCTL " --socket " + server_.socket().string() + " web --port " +
      std::to_string(other.port()) + " " + write_random() + " >/dev/full; true; }");
  EXPECT_THAT(said, testing::StartsWith("profctl: port " + std::to_string(other.port()) +
                                        " is taken, so the page is at port "));
}

// A session whose samples have times, of which a test keeps its own books.
class TimedWebViewsTest : public WebViewsTest {
 protected:
  static constexpr std::int64_t kStartMs = 1'700'000'000'123;
  static constexpr std::uint32_t kTicks = 500;

  TimedWebViewsTest() {
    std::mt19937 random(9);
    whole_.time_ns = kStartMs * 1'000'000 + 456'789;
    whole_.duration_ns = 10'000'000'000;
    whole_.times.emplace();
    for (std::uint32_t i = 0; i < whole_.samples().size(); ++i) {
      for (std::int64_t left = whole_.values(i).front(); left > 0; --left) {
        const auto tick = static_cast<std::uint32_t>(random() % kTicks);
        whole_.times->entries.push_back({.sample = i, .tick = tick});
        ++ticks_[{i, tick}];
      }
    }
    normalize(*whole_.times);
  }

  std::string write_whole() { return scratch_.write("timed.pb.gz", encode_pprof_gzip(whole_)); }

  // A file of the samples of these ticks alone.
  std::string write_part(std::uint32_t since, std::uint32_t until) {
    PprofProfile part = random_.profile();
    part.duration_ns = std::int64_t{until - since} * kTickMs * 1'000'000;
    for (const auto& [place, count] : ticks_) {
      if (place.second >= since && place.second < until) continue;
      const std::vector<std::int64_t> gone{-count, -count * test::RandomProfile::kPeriodNs};
      part.add_sample(part.samples()[place.first], gone);
    }
    return scratch_.write("part.pb.gz", encode_pprof_gzip(part));
  }

  static std::string range(std::uint32_t since, std::uint32_t until) {
    return "&since=" + std::to_string(kStartMs + since * kTickMs) +
           "&until=" + std::to_string(kStartMs + until * kTickMs);
  }

  PprofProfile whole_ = random_.profile();
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> ticks_;  // samples by row, tick
};

TEST_F(TimedWebViewsTest, ARangeHasTheSamplesThatWereTakenInIt) {
  const std::string file = write_whole();
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges = {
      {0, 500}, {0, 1}, {133, 134}, {77, 402}};
  for (const auto& [since, until] : ranges) {
    const std::string part = write_part(since, until);
    const json::value table = data(file, "/api/table?names=full" + range(since, until));
    EXPECT_EQ(test::row_sums(table.at("rows")), test::function_sums(test::traces_of(part)));
    const json::value report = profctl_json({"report", part, "--names", "full"});
    EXPECT_EQ(table.at("all"), report.at("all"));
    EXPECT_EQ(table.at("duration_ns"), report.at("duration_ns"));
    EXPECT_EQ(test::paths_of_data(data(file, "/api/flame?names=full" + range(since, until))),
              test::paths_of(test::traces_of(part)));
    EXPECT_EQ(data(file, "/api/list?" + range(since, until)).at("rows"),
              data_of_another(part, "/api/list?").at("rows"));
  }
}

TEST_F(TimedWebViewsTest, ARangeHoldsBesideTargetAndFilter) {
  const std::string file = write_whole();
  const std::string part = write_part(20, 300);
  const std::string at = range(20, 300);
  EXPECT_EQ(data(file, "/api/table?unit=unit1" + at),
            profctl_json({"report", part, "-u", "unit1"}));
  EXPECT_EQ(data(file, "/api/table?pid=102&focus=work_3" + at),
            profctl_json({"report", part, "-p", "102", "--focus", "work_3"}));
  EXPECT_EQ(data(file, "/api/table?"), profctl_json({"report", file}));
}

TEST_F(TimedWebViewsTest, TheTimelineHasTheSamplesOfEachPartOfASecond) {
  const json::value timeline = data(write_whole(), "/api/timeline?");
  const json::array& windows = timeline.at("windows").as_array();
  ASSERT_EQ(windows.size(), 10U);
  std::map<std::uint32_t, std::int64_t> expected;
  for (const auto& [place, count] : ticks_) expected[place.second] += count;
  for (std::uint32_t tick = 0; tick < kTicks; ++tick) {
    const json::value& window = windows[tick / 50];
    EXPECT_EQ(window.at("since").to_number<std::int64_t>(), kStartMs + tick / 50 * 1000);
    EXPECT_EQ(window.at("parts").at(tick % 50).to_number<std::int64_t>(), expected[tick]) << tick;
  }
  EXPECT_EQ(timeline.at("untimed").to_number<std::int64_t>(), 0);
}

// Those after the end of the times are in the whole, and in no range.
TEST_F(TimedWebViewsTest, SamplesWithoutATimeAreCounted) {
  whole_.times->until = 120;
  normalize(*whole_.times);
  std::int64_t untimed = 0;
  for (const auto& [place, count] : ticks_) untimed += place.second >= 120 ? count : 0;
  const std::string file = write_whole();
  const json::value timeline = data(file, "/api/timeline?");
  EXPECT_EQ(timeline.at("windows").as_array().size(), 3U);
  EXPECT_EQ(timeline.at("untimed").to_number<std::int64_t>(), untimed);
  EXPECT_EQ(data(file, "/api/table?" + range(0, 500)),
            profctl_json({"report", write_part(0, 120)}));
}

TEST_F(TimedWebViewsTest, TimesOfOtherSamplesAreRefused) {
  const auto sample_count = static_cast<std::uint32_t>(whole_.samples().size());
  OrderedPprof ordered = order_pprof(whole_);
  for (const SampleTime& wrong : {SampleTime{.sample = sample_count}, SampleTime{.count = 1000}}) {
    const std::string times = encode_sample_times({.entries = {wrong}});
    ordered.tables.times = times;
    views_.reset();
    const WebReply reply =
        ask(scratch_.write("bad.pb", encode_pprof_tables(ordered.tables)), "/api/list?");
    EXPECT_NE(reply.status, 200U);
    EXPECT_THAT(reply.body, HasSubstr("times"));
  }
}

}  // namespace
}  // namespace profd
