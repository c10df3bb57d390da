// What profctl web exports of a filtered view, and shows with filters of the command line: the
// samples that Go's pprof leaves of the same file by its own filters.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>

#include "ctl/web/web_views.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "formats/profile/sample_times.h"
#include "tests/ctl/profctl_fixture.h"
#include "tests/ctl/views/filtered_traces.h"
#include "tests/ctl/views/flame_file.h"
#include "tests/ctl/views/pprof_traces.h"
#include "tests/ctl/views/random_profile.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using testing::HasSubstr;
using testing::IsSubsetOf;

SelectionPatterns patterns_of(const test::FilterCase& filter) {
  SelectionPatterns patterns;
  for (std::size_t i = 0; i + 1 < filter.options.size(); i += 2) {
    const std::string& value = filter.options[i + 1];
    if (filter.options[i] == "--focus") patterns.focus.push_back(value);
    if (filter.options[i] == "--ignore") patterns.ignore.push_back(value);
    if (filter.options[i] == "--hide") patterns.hide.push_back(value);
  }
  return patterns;
}

class WebFiltersTest : public test::ProfctlTest {
 protected:
  WebFiltersTest() {
    random_.add(400);
    source_ = scratch_.write("a.pb.gz", encode_pprof_gzip(random_.profile()));
  }

  // `patterns`: of the command line.
  WebReply ask(const std::string& target, const SelectionPatterns& patterns = {}) {
    WebViews views(client_, SourceRequest{.name = source_, .range = {}, .target = {}}, "",
                   patterns);
    return views.answer(WebRequest::parse(target).value());
  }
  boost::json::value data(const std::string& target, const SelectionPatterns& patterns = {}) {
    const WebReply reply = ask(target, patterns);
    EXPECT_EQ(reply.status, 200U) << reply.body;
    return boost::json::parse(reply.body);
  }
  // The path of the file that the page's button downloads.
  std::filesystem::path exported(const std::string& form, const std::string& fields,
                                 const SelectionPatterns& patterns = {}) {
    const WebReply reply = ask("/api/export?form=" + form + fields, patterns);
    EXPECT_EQ(reply.status, 200U) << reply.body;
    return scratch_.write(form == "pprof" ? "e.pb.gz" : "e." + form, reply.body);
  }
  boost::json::value profctl_json(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return boost::json::parse(ran.code == 0 ? ran.out : "null");
  }
  // The profile of a history or session.
  void give_random_profile() {
    const std::string bytes = encode_pprof_gzip(random_.profile());
    service_.files["profile.pb.gz"] = bytes;
    service_.result.named_profile = ResultFile{.path = "profile.pb.gz", .bytes = bytes.size()};
  }

  Client client_{server_.socket().string()};
  test::ScratchDirectory scratch_;
  test::RandomProfile random_{11};
  std::string source_;
};

// All that a profile says of each location: build id, file, address, functions and lines.
std::set<std::string> code_of(const std::string& bytes) {
  const auto profile = decode_pprof(bytes);
  if (!profile) return {"malformed"};
  std::set<std::string> code;
  for (const PprofLocation& location : profile->locations()) {
    const PprofMapping& mapping = profile->mappings()[location.mapping];
    std::ostringstream text;
    text << profile->text(mapping.build_id) << " " << profile->text(mapping.file);
    text << " " << mapping.start << " " << location.address;
    for (const PprofLine& line : profile->lines(location.lines)) {
      const PprofFunction& function = profile->functions()[line.function];
      text << " " << profile->text(function.name) << " " << profile->text(function.system_name);
      text << " " << profile->text(function.file) << ":" << line.line;
    }
    code.insert(text.str());
  }
  return code;
}

void expect_traces(const std::vector<test::Trace>& found,
                   const std::vector<test::Trace>& expected) {
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(test::paths_of(found), test::paths_of(expected));
  for (const char* label : {"comm", "user", "pid"}) {
    EXPECT_EQ(test::label_sums(found, label), test::label_sums(expected, label)) << label;
  }
}

TEST_F(WebFiltersTest, ExportsHaveWhatTheFiltersOfThePageLeave) {
  for (const test::FilterCase& filter : test::filter_cases()) {
    SCOPED_TRACE(filter.of_pprof);
    const auto expected = test::traces_with(source_, filter.of_pprof);
    expect_traces(test::traces_of(exported("pprof", filter.fields)), expected);
    const std::string html = test::read_file(exported("html", filter.fields));
    // Its names are short ones, which are the full ones here.
    EXPECT_EQ(test::paths_of_data(test::data_of_html(html)), test::paths_of(expected));
    std::map<std::string, std::int64_t> lines;
    std::istringstream folded(test::read_file(exported("folded", filter.fields)));
    for (std::string line; std::getline(folded, line);) {
      lines[line.substr(0, line.rfind(' '))] += std::stoll(line.substr(line.rfind(' ')));
    }
    EXPECT_EQ(lines, test::folded_lines(expected));
  }
}

TEST_F(WebFiltersTest, SpeedscopeAndGperftoolsHaveTheSamplesThatAreLeft) {
  for (const test::FilterCase& filter : test::filter_cases()) {
    SCOPED_TRACE(filter.of_pprof);
    const std::int64_t expected = test::sum_of_traces(test::traces_with(source_, filter.of_pprof));
    const auto file = boost::json::parse(test::read_file(exported("speedscope", filter.fields)));
    std::int64_t weight = 0;
    for (const auto& profile : file.at("profiles").as_array()) {
      for (const auto& one : profile.at("weights").as_array()) {
        weight += one.to_number<std::int64_t>();
      }
    }
    EXPECT_EQ(weight, expected * test::RandomProfile::kPeriodNs);
    const auto tar = exported("gperftools", filter.fields);
    const std::string there = "cd " + scratch_.path().string() + " && ";
    (void)test::output_of(there + "tar xf " + tar.string());
    EXPECT_THAT(test::output_of(there + "HOME=/nonexistent " + GO_PPROF_BINARY +
                                " -sample_index=samples -top profile.prof 2>&1"),
                HasSubstr(std::to_string(expected) + " total"));
  }
}

TEST_F(WebFiltersTest, ExportsHaveTheTargetAndTheNamesThatThePageChose) {
  const auto expected = test::traces_of_label(
      test::traces_with(source_, "-focus='^ns::work_5$' -hide='^ns::work_4$'"), "pid", {"102"});
  const std::string fields = "&pid=102&focus_name=ns::work_5&hide_name=ns::work_4";
  expect_traces(test::traces_of(exported("pprof", fields)), expected);
}

// Of the processes 1 and 2, whose names begin with "shown" and "secret".
std::string profile_of_two_processes() {
  PprofProfile profile(std::vector<PprofValueType>{{"samples", "count"}});
  profile.default_sample_type = "samples";
  profile.period_type = {"samples", "count"};
  for (const std::int64_t pid : {1, 2}) {
    const std::string name = pid == 1 ? "shown" : "secret";
    const auto text = [&](const std::string& end) { return profile.add_text(name + end); };
    const auto function = profile.add_function(
        {.name = text("_function"), .system_name = text("_function"), .file = text("_source.cc")});
    const std::uint32_t mapping =
        profile.add_mapping({.start = 0x1000, .limit = 0x9000, .file = text("_library.so")});
    const std::vector<PprofLine> lines{{.function = function, .line = 3}};
    const std::vector<std::uint32_t> stack{
        profile.add_location({.address = 0x2000, .mapping = mapping}, lines)};
    const auto labels =
        profile.add_labels({{.key = profile.add_text("pid"), .number = pid},
                            {.key = profile.add_text("comm"), .text = text("_program")},
                            {.key = profile.add_text("unit"), .text = text(".service")},
                            {.key = profile.add_text("container"), .text = text("_container")}});
    profile.add_sample({.labels = labels, .stack = profile.add_stack(stack)},
                       std::vector<std::int64_t>{10});
  }
  return encode_pprof_gzip(profile);
}

// A file that is passed to others says nothing of what was left out of it.
TEST_F(WebFiltersTest, AnExportOfOneProcessHasNoNamesOfOthers) {
  source_ = scratch_.write("two.pb.gz", profile_of_two_processes());
  for (const std::string form : {"pprof", "folded", "speedscope", "gperftools"}) {
    SCOPED_TRACE(form);
    std::string bytes = test::read_file(exported(form, "&pid=1"));
    if (form == "pprof") bytes = *unpack_pprof(bytes);
    EXPECT_THAT(bytes, HasSubstr("shown_function"));
    EXPECT_THAT(bytes, testing::Not(HasSubstr("secret")));
  }
}

TEST_F(WebFiltersTest, FiltersOfTheCommandLineHoldForAllViews) {
  for (const test::FilterCase& filter : test::filter_cases()) {
    SCOPED_TRACE(filter.of_pprof);
    const SelectionPatterns patterns = patterns_of(filter);
    const auto expected = test::traces_with(source_, filter.of_pprof);
    expect_traces(test::traces_of(exported("pprof", "", patterns)), expected);
    EXPECT_EQ(test::paths_of_data(data("/api/flame?names=full", patterns)),
              test::paths_of(expected));
    std::vector<std::string> report{"report", source_};
    report.insert(report.end(), filter.options.begin(), filter.options.end());
    EXPECT_EQ(data("/api/table", patterns), profctl_json(report));
    std::map<std::string, std::int64_t> processes;
    const boost::json::value list = data("/api/list", patterns);
    for (const boost::json::value& row : list.at("rows").as_array()) {
      if (row.at("kind").as_string() != "process") continue;
      const auto target = boost::json::value_to<std::string>(row.at("target"));
      processes[target.substr(target.find(':') + 1)] += row.at("samples").as_int64();
    }
    EXPECT_EQ(processes, test::label_sums(expected, "pid"));
    const auto title = data("/api/source", patterns).at("title");
    EXPECT_THAT(boost::json::value_to<std::string>(title),
                HasSubstr(", " + filter.options[0] + " " + filter.options[1]));
  }
}

TEST_F(WebFiltersTest, AFilterOfThePageNarrowsThatOfTheCommandLine) {
  SelectionPatterns patterns;
  patterns.focus = {"work_1$"};
  patterns.hide = {"work_3$"};
  auto expected = test::traces_with(source_, "-focus='work_1$' -hide='work_3$'");
  std::erase_if(expected, [](const test::Trace& trace) {
    return std::ranges::find(trace.stack, "ns::work_5") == trace.stack.end();
  });
  for (const char* const field : {"&focus_name=ns::work_5", "&focus=work_5$"}) {
    SCOPED_TRACE(field);
    expect_traces(test::traces_of(exported("pprof", field, patterns)), expected);
    const auto table = data(std::string("/api/table?names=full") + field, patterns);
    EXPECT_EQ(test::row_sums(table.at("rows")), test::function_sums(expected));
  }
}

TEST_F(WebFiltersTest, AProfileForGosPprofHasWhatIsLeft) {
  give_random_profile();
  const std::string whole = test::read_file(source_);
  for (const test::FilterCase& filter : test::filter_cases()) {
    SCOPED_TRACE(filter.of_pprof);
    const auto expected = test::traces_with(source_, filter.of_pprof);
    WebViews of_page(client_, SourceRequest{.name = {}, .range = {}, .target = {}}, "");
    WebViews of_command_line(client_, SourceRequest{.name = {}, .range = {}, .target = {}}, "",
                             patterns_of(filter));
    const std::string address = "/debug/pprof/profile?seconds=1";
    for (const WebReply& started :
         {of_page.answer(WebRequest::parse(address + filter.fields).value()),
          of_command_line.answer(WebRequest::parse(address).value())}) {
      ASSERT_TRUE(started.then);
      const WebReply ended = started.then();
      ASSERT_EQ(ended.status, 200U) << ended.body;
      const auto written = test::traces_of(scratch_.write("new.pb.gz", ended.body));
      expect_traces(written, expected);
      EXPECT_EQ(test::label_sums(written, "unit"), test::label_sums(expected, "unit"));
      if (filter.options[0] == "--hide" || filter.options.size() > 2) continue;
      EXPECT_THAT(code_of(ended.body), IsSubsetOf(code_of(whole)));
    }
  }
}

// Addresses and build ids stay where an inlined function is hidden, too.
TEST_F(WebFiltersTest, HiddenFunctionsLeaveTheAddressesOfAProfileForGosPprof) {
  give_random_profile();
  const auto addresses = [](const std::string& bytes) {
    std::set<std::string> found;
    for (const std::string& text : code_of(bytes)) found.insert(text.substr(0, text.find(" ns::")));
    return found;
  };
  WebViews views(client_, SourceRequest{.name = {}, .range = {}, .target = {}}, "");
  const std::string address = "/debug/pprof/profile?seconds=1&hide=work_2";
  const WebReply started = views.answer(WebRequest::parse(address).value());
  ASSERT_TRUE(started.then);
  const WebReply ended = started.then();
  ASSERT_EQ(ended.status, 200U) << ended.body;
  EXPECT_THAT(addresses(ended.body), IsSubsetOf(addresses(test::read_file(source_))));
  for (const std::string& text : code_of(ended.body)) {
    EXPECT_EQ(text.find("work_2"), std::string::npos) << text;
  }
}

TEST_F(WebFiltersTest, AProfileForGosPprofOfNothingIsAnError) {
  give_random_profile();
  WebViews views(client_, SourceRequest{.name = {}, .range = {}, .target = {}}, "");
  const std::string address = "/debug/pprof/profile?seconds=1&focus=";
  const WebReply started = views.answer(WebRequest::parse(address + "nosuch").value());
  ASSERT_TRUE(started.then);
  EXPECT_EQ(started.then().status, 404U);
  EXPECT_THAT(service_.calls, testing::Contains("remove 5f2c01ab"));
  const std::size_t sessions = service_.started.size();
  EXPECT_EQ(views.answer(WebRequest::parse(address + "(").value()).status, 400U);
  EXPECT_EQ(service_.started.size(), sessions);
}

TEST_F(WebFiltersTest, ATargetOfAProfileForGosPprofNarrowsThatOfTheCommandLine) {
  give_random_profile();
  TargetRequest of_source;
  of_source.comms = {"program1", "program2"};
  WebViews views(client_, SourceRequest{.name = {}, .range = {}, .target = of_source}, "");
  const auto start = [&views](const std::string& fields) {
    return views.answer(WebRequest::parse("/debug/pprof/profile?seconds=1" + fields).value());
  };
  // The daemon samples both programs, and one of them is kept.
  const WebReply started = start("&pid=101");
  ASSERT_TRUE(started.then);
  EXPECT_EQ(service_.started.back().target, of_source);
  const WebReply ended = started.then();
  ASSERT_EQ(ended.status, 200U) << ended.body;
  expect_traces(test::traces_of(scratch_.write("new.pb.gz", ended.body)),
                test::traces_of_label(test::traces_of(source_), "pid", {"101"}));
  // A part of the target is one for the daemon.
  const WebReply part = start("&comm=program2");
  ASSERT_TRUE(part.then);
  EXPECT_EQ(service_.started.back().target.comms, std::vector<std::string>{"program2"});
  EXPECT_EQ(part.then().body, service_.files["profile.pb.gz"]);
  const WebReply none = start("&pid=999");
  ASSERT_TRUE(none.then);
  EXPECT_EQ(none.then().status, 404U);
  const std::size_t sessions = service_.started.size();
  EXPECT_EQ(start("&cgroup=/a").status, 400U) << "samples have none, which is known before";
  EXPECT_EQ(service_.started.size(), sessions);
}

TEST_F(WebFiltersTest, ATargetOfTheTimelineNarrowsThatOfTheCommandLine) {
  TargetRequest of_source;
  of_source.comms = {"program1", "program2"};
  WebViews views(client_, SourceRequest{.name = {}, .range = {}, .target = of_source}, "");
  const auto status_of = [&views](const std::string& fields) {
    return views.answer(WebRequest::parse("/api/timeline" + fields).value()).status;
  };
  EXPECT_EQ(status_of(""), 200U);
  EXPECT_EQ(service_.asked.back().target, of_source);
  EXPECT_EQ(status_of("?comm=program2"), 200U);
  EXPECT_EQ(service_.asked.back().target.comms, std::vector<std::string>{"program2"});
  const std::size_t requests = service_.asked.size();
  EXPECT_EQ(status_of("?pid=101"), 400U) << "the daemon would add it";
  EXPECT_EQ(service_.asked.size(), requests);
}

// Each 20 ms of the session has the samples that are left of those taken then.
TEST_F(WebFiltersTest, TheSecondsOfASessionHaveTheSamplesThatAreLeft) {
  PprofProfile whole = random_.profile();
  whole.time_ns = 1'700'000'000'000'000'000;
  whole.duration_ns = 4'000'000'000;
  SampleTimes times;
  for (std::uint32_t i = 0; i < whole.samples().size(); ++i) {
    const auto count = static_cast<std::uint32_t>(whole.values(i).front());
    times.entries.push_back({.sample = i, .tick = i % (4 * kTicksOfSecond), .count = count});
  }
  normalize(times);
  whole.times = std::move(times);
  source_ = scratch_.write("timed.pb.gz", encode_pprof_gzip(whole));
  for (const test::FilterCase& filter : test::filter_cases()) {
    SCOPED_TRACE(filter.of_pprof);
    const boost::json::value timeline = data("/api/timeline", patterns_of(filter));
    std::int64_t samples = 0;
    std::int64_t parts = 0;
    for (const boost::json::value& window : timeline.at("windows").as_array()) {
      samples += window.at("samples").to_number<std::int64_t>();
      for (const boost::json::value& part : window.at("parts").as_array()) {
        parts += part.to_number<std::int64_t>();
      }
    }
    const std::int64_t expected = test::sum_of_traces(test::traces_with(source_, filter.of_pprof));
    EXPECT_EQ(samples, expected);
    EXPECT_EQ(parts, expected);
    EXPECT_EQ(timeline.at("untimed").to_number<std::int64_t>(), 0);
  }
}

TEST_F(WebFiltersTest, WhatIsFilteredAwayIsAnErrorAndNoEmptyFile) {
  for (const char* const form : {"pprof", "folded", "speedscope", "gperftools", "html", "svg"}) {
    const std::string target = std::string("/api/export?form=") + form;
    EXPECT_EQ(ask(target + "&focus=nosuch").status, 404U) << form;
    EXPECT_EQ(ask(target + "&hide=work_").status, 404U) << form;
    EXPECT_EQ(ask(target + "&focus=(").status, 400U) << form;
  }
  EXPECT_EQ(ask("/api/export?form=exe&focus=nosuch").status, 400U);
}

TEST_F(WebFiltersTest, WhatMatchesNothingExitsBeforeThePageIsThere) {
  for (const char* const subcommand : {"web", "view"}) {
    SCOPED_TRACE(subcommand);
    const Ran filtered = run({subcommand, "--port", "0", source_, "--focus", "nosuch"});
    EXPECT_EQ(filtered.code, kExitNotFound);
    EXPECT_EQ(filtered.out, "");
    EXPECT_THAT(filtered.err, HasSubstr("hint: "));
    EXPECT_EQ(run({subcommand, "--port", "0", source_, "--hide", "work_"}).code, kExitNotFound);
    EXPECT_EQ(run({subcommand, "--port", "0", source_, "-p", "999"}).code, kExitNotFound);
    EXPECT_EQ(run({subcommand, "--port", "0", source_, "--ignore", "("}).code, kExitUsage);
  }
  give_random_profile();
  service_.windows.left_out = 1;
  const Ran history = run({"web", "--port", "0", "--last", "10m", "--focus", "nosuch"});
  EXPECT_EQ(history.code, kExitNotFound);
  EXPECT_EQ(service_.exported.size(), 1U);
}

// Its samples are not read for that.
TEST_F(WebFiltersTest, ATargetThatTheWholeHistoryLacksExitsBeforeThePageIsThere) {
  WindowShares sum;
  sum.window = "20260102T140500Z";
  sum.started = "2026-01-02T14:05:00Z";
  sum.ended = "2026-01-02T14:06:00Z";
  sum.seconds = 60;
  service_.windows.windows = {sum};
  const Ran ran = run({"web", "--port", "0", "-n", "nosuch"});
  EXPECT_EQ(ran.code, kExitNotFound);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("no sample is of comm nosuch\nhint: "));
  ASSERT_EQ(service_.asked.size(), 1U);
  EXPECT_TRUE(service_.asked[0].sum);
  EXPECT_EQ(service_.asked[0].range, TimeRange());
  EXPECT_EQ(service_.asked[0].target.comms, std::vector<std::string>{"nosuch"});
  EXPECT_EQ(service_.exported.size(), 0U);
  service_.windows.windows[0].samples = 1;
  const TargetRequest target = service_.asked[0].target;
  WebViews views(client_, SourceRequest{.name = {}, .range = {}, .target = target}, "");
  EXPECT_TRUE(views.check());
}

}  // namespace
}  // namespace profd
