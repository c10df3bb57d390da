// Flame graphs: the samples in the files against those that Go's pprof prints, names that others
// chose, and sizes.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <boost/json/serialize.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/base/utf8_text.h"
#include "formats/profile/pprof_writer.h"
#include "tests/ctl/ran.h"
#include "tests/ctl/views/flame_file.h"
#include "tests/ctl/views/hostile_profile.h"
#include "tests/ctl/views/pprof_traces.h"
#include "tests/ctl/views/random_profile.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using testing::HasSubstr;
using testing::Not;

class FlameTest : public testing::Test {
 protected:
  FlameTest() { random_.add(400); }

  std::string write_random() {
    return scratch_.write("a.pb.gz", encode_pprof_gzip(random_.profile()));
  }
  Ran run(std::vector<std::string> arguments) {
    return run_with_socket(scratch_.path() / "no-socket", std::move(arguments));
  }
  // The file that flame writes.
  std::string drawn(const std::string& source, const std::string& extension,
                    const std::vector<std::string>& more = {}) {
    const std::filesystem::path file = scratch_.path() / ("out" + extension);
    std::filesystem::remove(file);
    std::vector<std::string> arguments{"flame", source, "-o", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    last_ = run(arguments);
    EXPECT_EQ(last_.code, 0) << last_.err;
    return last_.code == 0 ? test::read_file(file) : "";
  }
  // Another reader of XML finds the names in the picture that was drawn last. What comes `after`
  // the name of a process is its pid, unless the name is cut.
  void expect_names_in_picture(const std::string& after = " - ") {
    const std::string titles = test::output_of(
        "python3 -c \"import xml.dom.minidom as m;"
        "d=m.parse('" +
        (scratch_.path() / "out.svg").string() +
        "');"
        "print(sorted({e.tagName for e in d.getElementsByTagName('*')}));"
        "[print(t.firstChild.data) for t in d.getElementsByTagName('title')]\"");
    EXPECT_THAT(titles, HasSubstr("['g', 'rect', 'style', 'svg', 'text', 'title']"));
    for (const test::HostileName& name : test::hostile_names()) {
      EXPECT_THAT(titles, HasSubstr("\n" + name.shown + after));
    }
  }

  test::ScratchDirectory scratch_;
  test::RandomProfile random_{11};
  Ran last_;
};

TEST_F(FlameTest, TheDataOfThePageHasThePathsOfAllTraces) {
  const auto file = write_random();
  const auto data = test::data_of_html(drawn(file, ".html", {"--names", "full"}));
  const auto traces = test::traces_of(file);
  EXPECT_EQ(test::paths_of_data(data), test::paths_of(traces));
  std::int64_t sum = 0;
  for (const test::Trace& trace : traces) sum += trace.samples;
  EXPECT_EQ(data.at("all").at("samples").as_int64(), sum);
  EXPECT_EQ(data.at("all").at("cpu_ns").as_int64(), sum * test::RandomProfile::kPeriodNs);
  EXPECT_EQ(data.at("period_ns").as_int64(), test::RandomProfile::kPeriodNs);
  EXPECT_THAT(last_.out, HasSubstr(std::to_string(sum) + " samples"));
  EXPECT_FALSE(data.as_object().contains("sums"));  // its nodes have all samples
}

TEST_F(FlameTest, LabelsStandAboveTheFunctions) {
  const auto file = write_random();
  auto traces = test::traces_of(file);
  for (test::Trace& trace : traces) {
    const std::string unit = trace.labels.at("unit");
    trace.stack.push_back(unit == "-" ? "(no unit)" : unit);
  }
  const auto by_unit = drawn(file, ".html", {"--names", "full", "--by", "unit"});
  EXPECT_EQ(test::paths_of_data(test::data_of_html(by_unit)), test::paths_of(traces));
  for (test::Trace& trace : traces) {
    // The number is in the form "101" here.
    trace.stack.insert(trace.stack.end() - 1,
                       trace.labels.at("comm") + " " + trace.labels.at("pid"));
  }
  const auto by_both = drawn(file, ".html", {"--names", "full", "--by", "unit,process"});
  EXPECT_EQ(test::paths_of_data(test::data_of_html(by_both)), test::paths_of(traces));
}

TEST_F(FlameTest, FiltersAndTargetsChooseSamples) {
  const auto file = write_random();
  const auto data = test::data_of_html(
      drawn(file, ".html", {"--names", "full", "--focus", "work_3$", "-u", "unit1"}));
  std::vector<test::Trace> wanted;
  for (const test::Trace& trace : test::traces_of(file)) {
    const bool has_function =
        std::find(trace.stack.begin(), trace.stack.end(), "ns::work_3") != trace.stack.end();
    if (has_function && trace.labels.at("unit") == "unit1.service") wanted.push_back(trace);
  }
  EXPECT_EQ(test::paths_of_data(data), test::paths_of(wanted));
}

TEST_F(FlameTest, SamplesOfDifferentPeriodsHaveTheirOwnCpuTime) {
  PprofProfile profile({{"samples", "count"}, {"cpu", "nanoseconds"}});
  const std::uint32_t name = profile.add_text("work");
  const PprofLine line{.function = profile.add_function({.name = name, .system_name = name})};
  const std::uint32_t location = profile.add_location({.address = 1}, {{line}});
  const std::uint32_t stack = profile.add_stack({{location}});
  for (const std::int64_t pid : {1, 2}) {
    const auto labels = profile.add_labels({{.key = profile.add_text("pid"), .number = pid}});
    const std::vector<std::int64_t> values{10, pid * 70};
    profile.add_sample({.labels = labels, .stack = stack}, values);
  }
  const auto file = scratch_.write("b.pb.gz", encode_pprof_gzip(profile));
  const auto data = test::data_of_html(drawn(file, ".html", {"--by", "process"}));
  EXPECT_FALSE(data.as_object().contains("period_ns"));
  EXPECT_EQ(boost::json::serialize(data.at("nodes").at("self_cpu")), "[0,140,0,70]");
}

// One box of a picture: its numbers, and where it is.
struct SvgBox {
  std::string name;
  std::int64_t samples = 0;
  double x = 0;
  double width = 0;
  int y = 0;
};

std::vector<SvgBox> boxes_of(const std::string& svg) {
  static const std::regex kBox(
      "<g><title>(.*) - [0-9.]+ % \\(([0-9]+) samples?[^\n]*</title><rect class=\"[a-z]\" "
      "x=\"([0-9.]+)\" y=\"([0-9]+)\" width=\"([0-9.]+)\"");
  std::vector<SvgBox> boxes;
  std::istringstream lines(svg);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!line.starts_with("<g>")) continue;
    EXPECT_TRUE(std::regex_search(line, match, kBox)) << line;
    boxes.push_back({.name = match[1],
                     .samples = std::stoll(match[2]),
                     .x = std::stod(match[3]),
                     .width = std::stod(match[5]),
                     .y = std::stoi(match[4])});
  }
  return boxes;
}

// By the place of each box above that of its caller.
std::map<std::string, std::int64_t> paths_of_boxes(const std::vector<SvgBox>& boxes) {
  std::map<std::string, std::int64_t> paths;
  std::map<int, std::vector<std::pair<SvgBox, std::string>>> rows;  // with their paths
  for (const SvgBox& box : boxes) {
    std::string path;
    const double middle = box.x + box.width / 2;
    for (const auto& [below, path_below] : rows[box.y + 17]) {
      if (below.x <= middle && middle <= below.x + below.width) path = path_below + "/" + box.name;
    }
    if (box.name == "all") path = "";
    rows[box.y].emplace_back(box, path);
    if (!path.empty()) paths[path] += box.samples;
  }
  return paths;
}

TEST_F(FlameTest, ThePictureHasThePathsOfAllTraces) {
  const auto file = write_random();
  const std::string svg = drawn(file, ".svg", {"--names", "full"});
  const auto boxes = boxes_of(svg);
  EXPECT_EQ(paths_of_boxes(boxes), test::paths_of(test::traces_of(file)));
  ASSERT_FALSE(boxes.empty());
  for (const SvgBox& box : boxes) {
    const double expected =
        1180.0 * static_cast<double>(box.samples) / static_cast<double>(boxes.front().samples);
    EXPECT_LT(std::abs(box.width - expected), 0.02) << box.name;
  }
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
}

TEST_F(FlameTest, NoNameBecomesAnythingButText) {
  std::string folded;
  for (const test::HostileName& name : test::hostile_names()) {
    folded += "outer;" + name.raw + " 100\n";
  }
  const auto file = scratch_.write("<b onclick=x>&\".folded", folded);
  const std::string html = drawn(file, ".html", {"--names", "full"});
  std::size_t elements = 0;
  for (std::size_t at = 0; (at = html.find("<script", at)) != std::string::npos; ++at) ++elements;
  EXPECT_EQ(elements, 2U);  // the data and the program
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, Not(HasSubstr("<!--")));
  EXPECT_TRUE(is_valid_utf8(html));
  const auto data = test::data_of_html(html);
  const auto names =
      boost::json::value_to<std::vector<std::string>>(data.at("functions").at("name"));
  for (const test::HostileName& name : test::hostile_names()) {
    EXPECT_THAT(names, testing::Contains(name.shown));
  }
  EXPECT_EQ(data.at("title").as_string(), file.string());
  (void)drawn(file, ".svg", {"--names", "full"});
  expect_names_in_picture();
}

TEST_F(FlameTest, NoLabelBecomesAnythingButText) {
  const auto file = scratch_.write("hostile.pb", test::hostile_profile());
  for (const std::string by : {"unit", "process", "user"}) {
    SCOPED_TRACE(by);
    const std::string svg = drawn(file, ".svg", {"--by", by});
    EXPECT_TRUE(is_valid_utf8(svg));
    expect_names_in_picture(by == "process" ? " " : " - ");
  }
}

TEST_F(FlameTest, ThePageAllowsItsOwnScriptAlone) {
  const std::string html = drawn(write_random(), ".html");
  const std::string policy = test::text_between(html, "Content-Security-Policy\" content=\"", "\"");
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_THAT(html, Not(testing::ContainsRegex("(src|href)=\"")));
  for (const auto& [kind, before] :
       std::map<std::string, std::string>{{"style", "<style>"}, {"script", "type=\"module\">"}}) {
    const auto text = scratch_.write(kind, test::text_between(html, before, "</" + kind + ">"));
    std::string hash =
        test::output_of("openssl dgst -sha256 -binary " + text.string() + " | base64");
    hash.erase(hash.find_last_not_of('\n') + 1);
    EXPECT_THAT(policy, HasSubstr(kind + "-src 'sha256-" + hash + "'"));
  }
}

// Stacks of `depth` functions out of many, so that nearly each has nodes of its own.
std::string wide_stacks(std::size_t stacks, std::size_t functions, std::size_t name_bytes) {
  std::mt19937 random(3);
  std::string folded;
  for (std::size_t i = 0; i < stacks; ++i) {
    for (std::size_t depth = 0; depth < 12; ++depth) {
      const std::string number = std::to_string(random() % (depth < 3 ? 4 : functions));
      folded += (depth == 0 ? "" : ";") + ("work_" + number) +
                std::string(std::max(name_bytes, number.size() + 5) - number.size() - 5, 'w');
    }
    folded += " " + std::to_string(1 + random() % 200) + "\n";
  }
  return folded;
}

// Self and total of each function, by an addition of the lines.
test::TraceSums sums_of_folded(const std::string& folded) {
  std::vector<test::Trace> traces;
  std::istringstream lines(folded);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.rfind(' ');
    test::Trace trace{.labels = {}, .samples = std::stoll(line.substr(space + 1)), .stack = {}};
    std::istringstream names(line.substr(0, space));
    for (std::string name; std::getline(names, name, ';');) trace.stack.push_back(name);
    std::ranges::reverse(trace.stack);
    traces.push_back(std::move(trace));
  }
  return test::function_sums(traces);
}

// Those that the page shows in its table, of the functions that it has.
void expect_sums(const boost::json::value& data, const test::TraceSums& expected) {
  const auto names =
      boost::json::value_to<std::vector<std::string>>(data.at("functions").at("name"));
  const auto& sums = data.at("sums").as_array();
  ASSERT_EQ(sums.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(sums[i].at(0).as_int64(), expected.at(names[i]).self) << names[i];
    EXPECT_EQ(sums[i].at(1).as_int64(), expected.at(names[i]).total) << names[i];
  }
}

TEST_F(FlameTest, AHundredThousandNodesFitIntoFiveMegabytes) {
  const std::string folded = wide_stacks(11'500, 3000, 40);
  const auto file = scratch_.write("a.folded", folded);
  const std::string html = drawn(file, ".html", {"--names", "full"});
  EXPECT_LT(html.size(), 5'000'000U);
  const auto data = test::data_of_html(html);
  EXPECT_GT(data.at("all").at("samples").as_int64(), 1'000'000);
  EXPECT_EQ(data.at("nodes").at("depth").as_array().size(), 100'000U);
  EXPECT_THAT(last_.out, HasSubstr("smaller nodes left out"));
  RecordProperty("bytes", static_cast<int>(html.size()));
  expect_sums(data, sums_of_folded(folded));
  // What was left out counts in the nodes above.
  std::int64_t sum = 0;
  for (const auto& [path, samples] : test::paths_of_data(data)) {
    if (path.find('/', 1) == std::string::npos) sum += samples;
  }
  EXPECT_EQ(sum, data.at("all").at("samples").as_int64());
}

TEST_F(FlameTest, LongNamesLeaveFewerNodes) {
  const std::string folded = wide_stacks(2'000, 9000, 1000);
  const auto file = scratch_.write("a.folded", folded);
  const std::string html = drawn(file, ".html", {"--names", "full"});
  expect_sums(test::data_of_html(html), sums_of_folded(folded));
  EXPECT_LT(html.size(), 5'000'000U);
  EXPECT_GT(html.size(), 1'000'000U);
  EXPECT_THAT(last_.out, HasSubstr("smaller nodes left out"));
}

TEST_F(FlameTest, TheCommandLineIsChecked) {
  const auto file = write_random();
  for (const auto& [arguments, message] : std::map<std::vector<std::string>, std::string>{
           {{"flame", file}, "no output"},
           {{"flame", file, "-o", "x.png"}, "is an .html or .svg file"},
           {{"flame", file, "-o", "x.pb.gz"}, "profctl convert"},
           {{"flame", file, "-o", "x.html", "--by", "line"}, "labels of processes"},
           {{"flame", file, "-o", "x.html", "--last", "5m"}, "exclude each other"},
           {{"flame", file, "-o", "x.html", "--focus", "("}, "not a regular expression"}}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(message));
  }
  const std::string out = scratch_.path() / "x.html";
  const Ran nothing = run({"flame", file, "-o", out, "--focus", "no_such_function"});
  EXPECT_EQ(nothing.code, 4);
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_EQ(run({"flame", scratch_.path() / "absent", "-o", out}).code, 4);
  scratch_.write("x.html", "before");
  EXPECT_EQ(run({"flame", file, "-o", out}).code, 1);
  EXPECT_EQ(test::read_file(out), "before");
}

TEST_F(FlameTest, JsonSaysWhatWasWritten) {
  const std::string out = scratch_.path() / "x.svg";
  const Ran ran = run({"flame", write_random(), "-o", out, "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto json = boost::json::parse(ran.out);
  EXPECT_EQ(json.at("output").as_string(), out);
  EXPECT_EQ(json.at("nodes").to_number<std::size_t>() + 1, boxes_of(test::read_file(out)).size());
}

}  // namespace
}  // namespace profd
