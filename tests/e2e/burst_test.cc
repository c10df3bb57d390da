// "Which function made the burst two minutes ago?", as a new user finds it: by the commands of the
// README's paragraph on it, in their order, with the times that the list of the history shows.

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tests/ctl/views/pprof_traces.h"
#include "tests/e2e/harness.h"

namespace profd::e2e {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::SizeIs;

constexpr const char* kBurstParagraph = "**A burst two minutes ago?**";

// What stands between backquotes in the paragraph that starts so, and is a command of profctl.
std::vector<Args> commands_of_paragraph(const std::string& start) {
  std::ifstream readme(README_PATH);
  std::string paragraph;
  for (std::string line; std::getline(readme, line);) {
    if (paragraph.empty() && !line.starts_with(start)) continue;
    if (line.empty()) break;
    paragraph += line + " ";
  }
  std::vector<Args> commands;
  const std::regex quoted("`(profctl [^`]*)`");
  for (std::sregex_iterator at(paragraph.begin(), paragraph.end(), quoted), end; at != end; ++at) {
    std::istringstream words((*at)[1].str());
    commands.emplace_back(std::istream_iterator<std::string>(words),
                          std::istream_iterator<std::string>());
  }
  return commands;
}

// Of the line with the most CPU use in what `profctl history` prints: its clock time, and that of
// the next line.
std::string range_of_busiest_line(const std::string& list) {
  const std::regex form(R"(^\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d) .*?([0-9.]+) %.*$)");
  std::istringstream lines(list);
  std::vector<std::pair<double, std::string>> found;
  for (std::string line; std::getline(lines, line);) {
    std::smatch parts;
    if (!std::regex_match(line, parts, form)) continue;
    found.emplace_back(std::stod(parts[2].str()), parts[1].str());
  }
  if (found.size() < 2) return "";
  const auto busiest = std::max_element(found.begin(), found.end() - 1);
  return busiest->second + ".." + std::next(busiest)->second;
}

std::vector<double> percentages_of(const std::string& line) {
  const std::regex form(R"(([0-9.]+) %)");
  std::vector<double> found;
  for (std::sregex_iterator at(line.begin(), line.end(), form), end; at != end; ++at) {
    found.push_back(std::stod((*at)[1].str()));
  }
  return found;
}

// Continuous mode with windows of 2 s, a burst on all CPUs, and quiet before and after it.
class BurstTest : public ::testing::Test {
 protected:
  BurstTest() {
    // A clock time is of today: the day does not change during the test.
    const time_t now = ::time(nullptr);
    const std::int64_t hour = now / 3600 % 24;
    options_.environment["TZ"] = hour == 23 || hour == 0 ? "NOON-12" : "UTC";
  }

  static Daemon::Options with_windows(const std::filesystem::path& config) {
    std::ofstream(config) << "[continuous]\nenabled = true\nwindow = \"2s\"\nfrequency = 499\n";
    Daemon::Options options;
    options.arguments = {"--config", config};
    return options;
  }

  void wait_for_windows(std::uint64_t more) const {
    const std::uint64_t wanted = daemon_.status().continuous.windows + more;
    EXPECT_TRUE(eventually([&] { return daemon_.status().continuous.windows >= wanted; }));
  }

  void make_burst() const {
    wait_for_windows(1);
    const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
    Process burst({workload("shares"), "5", std::to_string(threads)});
    EXPECT_EQ(burst.wait().status, 0);
    wait_for_windows(2);
  }

  // Percent of all samples, as pprof finds them in an export of the time.
  double share_of(const std::string& function, const std::string& range) const {
    const std::filesystem::path file = directory_.path() / "burst.pb.gz";
    const std::size_t dots = range.find("..");
    const Ended exported = daemon_.profctl(
        {"export", "--since", range.substr(0, dots), "--until", range.substr(dots + 2), "-o", file},
        options_);
    EXPECT_EQ(exported.status, 0) << exported.err;
    std::int64_t all = 0;
    const auto traces = test::traces_of(file);
    for (const test::Trace& trace : traces) all += trace.samples;
    return 100 * static_cast<double>(test::function_sums(traces)[function].self) /
           static_cast<double>(std::max<std::int64_t>(all, 1));
  }

  TemporaryDirectory directory_;
  Daemon daemon_{with_windows(directory_.path() / "profd.toml")};
  Process::Options options_;
};

TEST_F(BurstTest, TheCommandsOfTheReadmeNameItsFunctionAndShare) {
  std::vector<Args> commands = commands_of_paragraph(kBurstParagraph);
  ASSERT_FALSE(commands.empty()) << "the README has no paragraph " << kBurstParagraph;
  // In a browser: tests/ctl/page/web_test.py.
  std::erase_if(commands, [](const Args& command) { return command.at(1) == "web"; });
  ASSERT_THAT(commands, SizeIs(AllOf(Ge(1U), Le(3U))));
  make_burst();
  std::string range;
  std::string shown;
  for (const Args& command : commands) {
    Args args(command.begin() + 1, command.end());
    for (std::string& word : args) {
      if (word.find("..") != std::string::npos) word = range;  // of the example
    }
    const Ended ended = daemon_.profctl(args, options_);
    ASSERT_EQ(ended.status, 0) << ::testing::PrintToString(args) << "\n" << ended.err;
    shown = ended.out;
    if (command[1] == "history") range = range_of_busiest_line(shown);
  }
  ASSERT_NE(range, "") << "no command of the paragraph lists the history, or the list is another";
  // The title, a blank line, the heads, and the function with the most samples.
  std::istringstream lines(shown);
  std::string first;
  for (int i = 0; i < 4; ++i) std::getline(lines, first);
  EXPECT_THAT(first, HasSubstr("hot_sixty")) << shown;
  EXPECT_THAT(percentages_of(first), Contains(DoubleNear(share_of("hot_sixty", range), 0.06)))
      << shown;
}

}  // namespace
}  // namespace profd::e2e
