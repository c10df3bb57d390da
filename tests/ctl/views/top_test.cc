// The panes, text and JSON of top, against what Go's pprof prints of the same stacks.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctl/sources/pprof_samples.h"
#include "ctl/views/top_part.h"
#include "ctl/views/top_view.h"
#include "formats/base/utf8_text.h"
#include "formats/profile/pprof_writer.h"
#include "tests/ctl/views/pprof_traces.h"
#include "tests/ctl/views/random_profile.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace json = boost::json;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Lines = std::vector<std::string>;

constexpr Screen kScreen{.width = 100, .height = 30};

TopPart part_of(const PprofProfile& profile) {
  const Samples samples = samples_of_pprof(encode_pprof(profile)).value();
  SessionSummary summary;
  summary.started = "2026-01-02T03:04:05Z";
  summary.ledger = {.taken = 9, .written = 7, .lost = {{"ring_full", 2}}};
  return make_top_part(samples, summary, NameForm::kFull);
}

class TopTest : public testing::Test {
 protected:
  TopTest() { random_.add(400); }

  [[nodiscard]] TopPart part() const { return part_of(random_.profile()); }
  [[nodiscard]] std::vector<test::Trace> traces() {
    return test::traces_of(scratch_.write("a.pb.gz", encode_pprof_gzip(random_.profile())));
  }

  void press(std::string_view characters) {
    for (const char c : characters) (void)view_.press({.character = c});
  }
  void press(KeyCode code) { (void)view_.press({.code = code}); }
  Lines shown(const Screen& screen = kScreen) { return view_.lines(screen); }
  // The row with the mark of the pane of processes.
  std::string selected() {
    for (const std::string& line : shown()) {
      if (line.starts_with(">")) return line;
    }
    return {};
  }
  // The texts of one column of a pane, whose title has no blank.
  Lines column(const std::string& title) {
    Lines texts;
    const Lines lines = shown({.width = 200, .height = 60});
    const auto head = std::ranges::find_if(lines, [&](const std::string& line) {
      return (" " + line + " ").find(" " + title + " ") != std::string::npos;
    });
    if (head == lines.end()) return texts;
    const std::size_t at = head->find(title);
    for (auto line = head + 1;
         line != lines.end() && !line->empty() && !line->starts_with("functions of"); ++line) {
      const std::string rest = at < line->size() ? line->substr(at) : "";
      texts.push_back(rest.substr(0, rest.find("  ")));
    }
    return texts;
  }

  test::ScratchDirectory scratch_;
  test::RandomProfile random_{11};
  TopView view_{"all processes"};
};

TEST_F(TopTest, ProcessesAndFunctionsHaveTheSumsOfTheirTraces) {
  const json::value shown = json::parse(to_json(part(), SIZE_MAX));
  std::map<std::string, std::int64_t> by_comm;
  for (const json::value& process : shown.at("processes").as_array()) {
    by_comm[json::value_to<std::string>(process.at("comm"))] = process.at("samples").as_int64();
    EXPECT_EQ(process.at("cpu_ns").as_int64(),
              process.at("samples").as_int64() * test::RandomProfile::kPeriodNs);
  }
  EXPECT_EQ(by_comm, test::label_sums(traces(), "comm"));
  EXPECT_EQ(test::row_sums(shown.at("functions").at("rows")), test::function_sums(traces()));
  EXPECT_EQ(shown.at("ledger").at("taken").as_int64(), 9);
}

TEST_F(TopTest, TheFunctionsOfAProcessHaveTheSumsOfItsTraces) {
  const TopPart made = part();
  ASSERT_EQ(made.processes.size(), 6U);
  for (const TopProcess& process : made.processes) {
    std::vector<test::Trace> own = traces();
    std::erase_if(own,
                  [&](const test::Trace& one) { return one.labels.at("comm") != process.comm; });
    test::TraceSums sums;
    for (const ReportRow& row : process.functions) {
      sums[row.group.name] = {.self = row.self.samples, .total = row.total.samples};
    }
    EXPECT_EQ(sums, test::function_sums(own)) << process.comm;
    EXPECT_EQ(process.name, process.comm + " " + std::to_string(process.pid));
  }
}

TEST_F(TopTest, JsonAndTextHaveNoMoreRowsThanAsked) {
  const json::value limited = json::parse(to_json(part(), 2));
  EXPECT_EQ(limited.at("processes").as_array().size(), 2U);
  EXPECT_EQ(limited.at("processes_left_out").as_int64(), 4);
  EXPECT_EQ(limited.at("functions").at("rows").as_array().size(), 2U);
  const std::string text = top_text(part(), 2, {});
  EXPECT_EQ(std::ranges::count(text, '\n'), 2 + 3 + 1 + 3) << text;
  EXPECT_THAT(text, HasSubstr(" samples, 2 lost\n"));
}

TEST_F(TopTest, BeforeTheFirstPartThereIsNothingToSelect) {
  EXPECT_THAT(shown(), Contains(StartsWith("collecting samples")));
  for (const char* const keys : {"j", "k", "P", "N", "S", "T", "R", "<", ">"}) press(keys);
  for (const KeyCode code : {KeyCode::kDown, KeyCode::kEnd, KeyCode::kPageUp, KeyCode::kTab}) {
    press(code);
    EXPECT_LE(shown().size(), kScreen.height);
  }
}

TEST_F(TopTest, TheArrowsSelectAProcessWhoseFunctionsAreShown) {
  view_.set_part(part());
  EXPECT_THAT(shown(), Contains("functions of all processes"));
  press(KeyCode::kDown);
  const TopProcess first = part().processes.front();
  EXPECT_THAT(selected(), HasSubstr(first.comm));
  EXPECT_THAT(shown(), Contains("functions of " + first.name));
  EXPECT_THAT(shown(), Contains(HasSubstr(first.functions.front().group.name)));
  press(KeyCode::kEnd);
  EXPECT_THAT(selected(), HasSubstr(part().processes.back().comm));
  press(KeyCode::kHome);
  EXPECT_THAT(shown(), Contains("functions of all processes"));
  press("jjk");
  EXPECT_THAT(selected(), HasSubstr(first.comm));
}

TEST_F(TopTest, TheSelectedProcessStaysSelectedWhenTheOrderChanges) {
  view_.set_part(part());
  press(KeyCode::kDown);
  const std::string name = part().processes.front().name;
  for (const char* const keys : {"N", "R", "C", "U", "P"}) {
    press(keys);
    EXPECT_THAT(shown(), Contains("functions of " + name)) << keys;
  }
  TopPart next = part();
  std::ranges::reverse(next.processes);
  view_.set_part(std::move(next));
  EXPECT_THAT(shown(), Contains("functions of " + name));
}

TEST_F(TopTest, ASelectedProcessThatUsedNoCpuIsShownWithoutSamples) {
  view_.set_part(part());
  press(KeyCode::kDown);
  TopPart next = part();
  const TopProcess gone = next.processes.front();
  next.processes.erase(next.processes.begin());
  view_.set_part(next);
  view_.set_part(next);
  EXPECT_THAT(selected(), AllOf(HasSubstr(gone.comm), HasSubstr("0.0 %")));
  press(KeyCode::kHome);
  view_.set_part(next);
  EXPECT_THAT(shown(), Each(Not(HasSubstr(gone.comm))));
}

TEST_F(TopTest, ProcessesAreSortedByEachKey) {
  view_.set_part(part());
  press("N");
  Lines pids = column("PID");
  ASSERT_EQ(pids.size(), 7U);
  EXPECT_EQ(Lines(pids.begin() + 1, pids.end()), (Lines{"100", "101", "102", "103", "104", "105"}));
  press("R");
  EXPECT_EQ(column("PID").at(1), "105");
  press("R>");
  Lines commands = column("COMMAND");
  EXPECT_EQ(commands.front(), "all") << "all stay at the top";
  EXPECT_TRUE(std::ranges::is_sorted(commands.begin() + 1, commands.end()));
  press("U");
  Lines units = column("UNIT");
  EXPECT_TRUE(std::ranges::is_sorted(units));
  press("P");
  EXPECT_EQ(column("COMMAND").at(1), part().processes.front().comm);
}

TEST_F(TopTest, FunctionsAreSortedByEachKey) {
  view_.set_part(part());
  press("F");
  EXPECT_TRUE(std::ranges::is_sorted(column("FUNCTION")));
  press(KeyCode::kTab);
  press("R");
  EXPECT_TRUE(std::ranges::is_sorted(column("FUNCTION"), std::ranges::greater()));
  press("RS");
  EXPECT_EQ(column("FUNCTION").front(), part().functions.front().group.name);
  press("T");
  const auto& functions = part().functions;
  const auto most = std::ranges::max_element(
      functions, {}, [](const ReportRow& row) { return row.total.samples; });
  EXPECT_EQ(column("FUNCTION").front(), most->group.name);
}

TEST_F(TopTest, APauseKeepsWhatIsShown) {
  view_.set_part(part());
  press(" ");
  EXPECT_THAT(shown(), Contains(StartsWith("PAUSED")));
  TopPart next = part();
  next.processes.clear();
  view_.set_part(next);
  EXPECT_THAT(shown(), Contains(HasSubstr("program1")));
  press(" ");
  view_.set_part(next);
  EXPECT_THAT(shown(), Each(Not(HasSubstr("program1"))));
}

TEST_F(TopTest, HelpIsShownUntilTheNextKey) {
  view_.set_part(part());
  press("h");
  EXPECT_THAT(shown(), Contains(StartsWith("space ")));
  press("N");
  EXPECT_THAT(shown(), Contains(HasSubstr("PID")));
  EXPECT_EQ(view_.press({.character = 'x'}), TopView::Answer::kNothing);
  EXPECT_EQ(view_.press({.code = KeyCode::kHelp}), TopView::Answer::kRedraw);
  EXPECT_EQ(view_.press({.character = 'q'}), TopView::Answer::kQuit);
  EXPECT_EQ(view_.press({.code = KeyCode::kQuit}), TopView::Answer::kQuit);
}

TEST_F(TopTest, LinesFitEachSizeOfATerminal) {
  view_.set_part(part());
  press(KeyCode::kEnd);
  press(KeyCode::kTab);
  press(KeyCode::kPageDown);
  for (std::size_t width = 40; width <= 120; width += 5) {
    for (std::size_t height = 6; height < 50; height += 3) {
      const Lines lines = shown({.width = width, .height = height});
      EXPECT_LE(lines.size(), height);
      for (const std::string& line : lines) EXPECT_LE(columns_of(line), width) << line;
    }
  }
  for (const std::size_t size : {1, 2, 3, 5}) {
    EXPECT_LE(shown({.width = size, .height = size}).size(), size);
  }
}

TEST_F(TopTest, TheMarkedRowIsAlwaysOnTheScreen) {
  view_.set_part(part());
  for (const std::size_t height : {8, 12, 24}) {
    press(KeyCode::kHome);
    for (int i = 0; i < 8; ++i) {
      const Lines lines = shown({.width = 80, .height = height});
      EXPECT_THAT(lines, Contains(StartsWith(">"))) << height << " " << i;
      press(KeyCode::kDown);
    }
  }
}

TEST_F(TopTest, ColoursAreOnlyThereWhereTheScreenHasThem) {
  view_.set_part(part());
  EXPECT_THAT(shown(), Each(Not(HasSubstr("\x1b"))));
  EXPECT_THAT(shown({.width = 100, .height = 30, .has_color = true}), Contains(HasSubstr("\x1b[")));
}

// Escapes, marks that turn the direction of a line, bytes that are no UTF-8, and endless names.
TEST_F(TopTest, HostileNamesAreShownAsText) {
  for (const std::string& name :
       {std::string("\x1b[2J\r\nowned"),
        std::string("\xe2\x80\xae"
                    "evil"),
        std::string("\xff\xfe"), std::string(1 << 20, 'x'), std::string("<script>")}) {
    TopPart hostile = part();
    hostile.functions.front().group.name = name;
    hostile.functions.front().group.object = name;
    TopProcess& process = hostile.processes.front();
    process.name = process.comm = process.unit = process.user = process.runtime = name;
    TopView view(name);
    view.set_part(hostile);
    (void)view.press({.code = KeyCode::kDown});
    for (const std::string& line : view.lines(kScreen)) {
      EXPECT_TRUE(is_printable(line)) << line;
      EXPECT_LE(columns_of(line), kScreen.width);
    }
    const std::string text = top_text(hostile, 20, {});
    EXPECT_LT(text.size(), 100'000U);
    EXPECT_TRUE(is_valid_utf8(text));
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_TRUE(json::parse(to_json(hostile, 20)).is_object());
  }
}

}  // namespace
}  // namespace profd
