// Interpreted functions in reports and pictures: a kind of their own, by name, line, file and
// runtime like any other.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/profile/pprof_writer.h"
#include "tests/ctl/ran.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace json = boost::json;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Pair;

// 30 samples at line 12 of step(), 10 at line 14, below the loop of a program; 5 of another process
// in the loop alone.
std::string a_python_profile() {
  PprofProfile profile({{"samples", "count"}, {"cpu", "nanoseconds"}});
  profile.default_sample_type = "cpu";
  profile.period_type = {"cpu", "nanoseconds"};
  profile.period = 1'000'000;
  profile.add_mapping({.file = profile.add_text("[all processes of host]")});
  const std::uint32_t python = profile.add_mapping({.file = profile.add_text("[python]")});
  const std::uint32_t program =
      profile.add_mapping({.start = 0x1000, .limit = 0x9000, .file = profile.add_text("/bin/app")});
  const auto location = [&profile](std::uint32_t mapping, const std::string& name,
                                   const std::string& file, std::int64_t line) {
    const PprofLine one{.function = profile.add_function({.name = profile.add_text(name),
                                                          .file = profile.add_text(file),
                                                          .start_line = line == 0 ? 0 : 10}),
                        .line = line};
    return profile.add_location(
        {.address = 0x1000 + static_cast<std::uint64_t>(line), .mapping = mapping}, {&one, 1});
  };
  const std::uint32_t loop = location(program, "_PyEval_EvalFrameDefault", "", 0);
  const auto add = [&profile](const std::string& runtime, const std::vector<std::uint32_t>& stack,
                              std::int64_t count) {
    const std::vector<std::int64_t> values{count, count * 1'000'000};
    const std::uint32_t labels = profile.add_labels(
        {{.key = profile.add_text("runtime"), .text = profile.add_text(runtime)}});
    profile.add_sample({.labels = labels, .stack = profile.add_stack(stack)}, values);
  };
  add("python", {location(python, "Worker.step", "/app/x.py", 12), loop}, 30);
  add("python", {location(python, "Worker.step", "/app/x.py", 14), loop}, 10);
  add("-", {loop}, 5);
  return encode_pprof_gzip(profile);
}

class InterpretedViewsTest : public testing::Test {
 protected:
  Ran run(std::vector<std::string> arguments, const Screen& screen = {}) {
    return run_with_socket(scratch_.path() / "no-socket", std::move(arguments), screen);
  }
  // The samples of a report's rows, of their own code, by name.
  std::map<std::string, std::int64_t> self_by(const std::string& key) {
    const Ran ran = run({"report", file_, "--by", key, "--names", "full", "--json"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    std::map<std::string, std::int64_t> rows;
    const json::value report = json::parse(ran.out.empty() ? "null" : ran.out);
    for (const json::value& row : report.at("rows").as_array()) {
      rows[json::value_to<std::string>(row.at("name"))] = row.at("self").at("samples").as_int64();
    }
    return rows;
  }

  test::ScratchDirectory scratch_;
  std::string file_ = scratch_.write("a.pb.gz", a_python_profile());
};

// Mutations: a kind that is lost on the way, a line that is taken for another function.
TEST_F(InterpretedViewsTest, ReportsHaveThemByNameLineAndRuntime) {
  EXPECT_THAT(self_by("function"),
              IsSupersetOf({Pair("Worker.step", 40), Pair("_PyEval_EvalFrameDefault", 5)}));
  const auto lines = self_by("line");
  std::int64_t of_line_12 = 0;
  for (const auto& [name, samples] : lines) {
    if (name.find("x.py:12") != std::string::npos) of_line_12 += samples;
  }
  EXPECT_EQ(of_line_12, 30);
  EXPECT_THAT(self_by("runtime"), IsSupersetOf({Pair("python", 40)}));
  const json::value report = json::parse(run({"report", file_, "--json"}).out);
  for (const json::value& row : report.at("rows").as_array()) {
    const bool is_step = json::value_to<std::string>(row.at("name")) == "Worker.step";
    EXPECT_EQ(json::value_to<std::string>(row.at("kind")), is_step ? "interpreted" : "native");
  }
}

TEST_F(InterpretedViewsTest, PicturesAndTextsHaveAColourForThem) {
  const std::string svg = scratch_.path() / "out.svg";
  ASSERT_EQ(run({"flame", file_, "-o", svg}).code, 0);
  EXPECT_THAT(test::read_file(svg), HasSubstr("<rect class=\"i\""));
  const Screen screen{.width = 100, .has_color = true};
  EXPECT_THAT(run({"report", file_, "--no-pager"}, screen).out,
              HasSubstr("\x1b[36mWorker.step\x1b[0m"));
}

}  // namespace
}  // namespace profd
