#include "daemon/history/hour_size.h"

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "daemon/history/hour_file.h"
#include "formats/profile/pprof_merge.h"
#include "tests/daemon/history/fabricated_windows.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::NamedProcess;
using testing::SizeIs;

constexpr std::chrono::system_clock::time_point kStartOfLimitedHour{1'767'362'400s};
constexpr std::uint64_t kUnlimitedHour = kMaxWindowFileBytes;
constexpr int kDepthOfHour = 60;

// Names that hardly pack.
std::string long_name_of(std::size_t number, std::size_t bytes) {
  std::string name = "f" + std::to_string(number) + "_";
  std::uint64_t state = number + 1;
  while (name.size() < bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    name.push_back(static_cast<char>('a' + (state >> 33U) % 26));
  }
  return name;
}

// A stack of which all but its leaf and its four outermost frames are its own choice of 500.
test::NamedStack rare_stack_of(std::uint64_t number) {
  test::NamedStack stack{.functions = {"leaf" + std::to_string(number % 7)}, .samples = 1};
  std::uint64_t state = number + 1;
  for (int i = 0; i < kDepthOfHour; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    stack.functions.push_back("inner" + std::to_string((state >> 33U) % 500));
  }
  for (const char* outer : {"parse", "compile", "main", "_start"}) stack.functions.push_back(outer);
  return stack;
}

NamedProcess compiler_of(std::uint32_t pid, std::uint64_t first, std::uint64_t stacks) {
  NamedProcess process{.pid = pid, .comm = "cc1plus"};
  for (std::uint64_t i = 0; i < stacks; ++i) process.stacks.push_back(rare_stack_of(first + i));
  return process;
}

class HourSizeTest : public testing::Test {
 protected:
  void add(int minute, const std::vector<NamedProcess>& processes) {
    names_.push_back(windows_.add(kStartOfLimitedHour + minute * 1min, processes));
  }
  // Two processes of rare stacks, and one of a frequent one that is as deep.
  void add_compiling_minutes() {
    NamedProcess server{.pid = 30, .comm = "server"};
    server.stacks.push_back({.functions = {}, .samples = 3000});
    for (int i = 0; i < kDepthOfHour; ++i) {
      server.stacks[0].functions.push_back("served" + std::to_string(i));
    }
    for (int minute = 0; minute < 3; ++minute) {
      const auto first = static_cast<std::uint64_t>(minute) * 1000;
      add(minute, {compiler_of(10, first, 500), compiler_of(20, first + 500, 500), server});
    }
  }
  void make(const std::string& name, std::uint64_t max_bytes) {
    HourMaker maker({.windows_dir = windows_.windows(),
                     .hours_dir = windows_.hours(),
                     .name = name,
                     .start = kStartOfLimitedHour,
                     .windows = names_,
                     .max_bytes = max_bytes});
    while (!maker.advance(1s).value()) {
    }
  }
  [[nodiscard]] fs::path path_of(const std::string& name) const {
    return windows_.hours() / (name + ".pb.gz");
  }
  [[nodiscard]] PprofProfile profile_in(const std::string& name) const {
    const WindowFile file = WindowFile::open(windows_.hours(), name).value();
    return profile_of(file.tables().value());
  }
  // By number of frames: how many samples have stacks of so many.
  [[nodiscard]] std::map<std::size_t, std::int64_t> samples_by_depth(
      const std::string& name) const {
    const PprofProfile profile = profile_in(name);
    std::map<std::size_t, std::int64_t> samples;
    for (std::size_t i = 0; i < profile.samples().size(); ++i) {
      samples[profile.stack(profile.samples()[i].stack).size()] += profile.values(i)[0];
    }
    return samples;
  }

  test::FabricatedWindows windows_;
  std::vector<std::string> names_;
};

const std::string kWhole = "20260102T140000Z";
const std::string kLimited = "20260102T140000Z-2";
const std::string kAgain = "20260102T140000Z-3";

TEST_F(HourSizeTest, TheHoursThatAreKeptFitIntoHalfOfTheHistory) {
  EXPECT_EQ(max_bytes_of_hour(std::uint64_t{1} << 30, 30 * 24h), (std::uint64_t{1} << 29) / 720);
  EXPECT_EQ(max_bytes_of_hour(std::uint64_t{64} << 20, 30 * 24h), 256U << 10);
  EXPECT_EQ(max_bytes_of_hour(std::uint64_t{1} << 20, 10s), 512U << 10);
}

TEST_F(HourSizeTest, AnHourOverItsLimitFitsAfterwardsAndKeepsItsSums) {
  add_compiling_minutes();
  make(kWhole, kUnlimitedHour);
  const std::uint64_t limit = fs::file_size(path_of(kWhole)) / 3;
  make(kLimited, limit);
  EXPECT_LE(fs::file_size(path_of(kLimited)), limit);
  const test::Report whole = test::go_report(path_of(kWhole));
  const test::Report limited = test::go_report(path_of(kLimited));
  EXPECT_EQ(limited.total, 3 * 4000U);
  EXPECT_EQ(limited.total, whole.total);
  for (const auto& [function, row] : whole.rows) {
    if (row.flat == 0) continue;
    ASSERT_TRUE(limited.rows.contains(function)) << function;
    EXPECT_EQ(limited.rows.at(function).flat, row.flat) << function;
  }
  for (const char* outer : {"parse", "compile", "main", "_start"}) {
    EXPECT_EQ(limited.rows.at(outer).cumulative, 3000U) << outer;
  }
  EXPECT_EQ(limited.rows.at("[frames left out]").flat, 0U);
  const WindowFile file = WindowFile::open(windows_.hours(), kLimited).value();
  ASSERT_THAT(file.summary().profiles, SizeIs(3));
  std::map<std::uint32_t, std::uint64_t> samples;
  for (const ProfileSummary& process : file.summary().profiles) {
    samples[process.pid] = process.samples;
  }
  EXPECT_EQ(samples, (std::map<std::uint32_t, std::uint64_t>{{10, 1500}, {20, 1500}, {30, 9000}}));
}

TEST_F(HourSizeTest, FrequentStacksStayWhole) {
  add_compiling_minutes();
  make(kWhole, 1);
  constexpr std::size_t kShortened = 4 + 2;  // the outermost, the innermost, one for the others
  EXPECT_EQ(samples_by_depth(kWhole),
            (std::map<std::size_t, std::int64_t>{{kShortened, 3000}, {kDepthOfHour, 9000}}));
}

TEST_F(HourSizeTest, AnHourWithinItsLimitIsAsItIsWithoutLimit) {
  add_compiling_minutes();
  make(kWhole, kUnlimitedHour);
  const std::string whole = test::read_file(path_of(kWhole));
  fs::remove(path_of(kWhole));
  make(kWhole, whole.size());
  EXPECT_EQ(test::read_file(path_of(kWhole)), whole);
}

TEST_F(HourSizeTest, EqualWindowsBecomeEqualBytes) {
  add_compiling_minutes();
  make(kWhole, kUnlimitedHour);
  const std::uint64_t limit = fs::file_size(path_of(kWhole)) / 3;
  make(kAgain, limit);
  const std::string once = test::read_file(path_of(kAgain));
  fs::remove(path_of(kAgain));
  make(kAgain, limit);
  EXPECT_EQ(test::read_file(path_of(kAgain)), once);
}

// Nothing that may be left out makes this hour fit.
TEST_F(HourSizeTest, AnHourThatCannotFitEndsAfterFewTrials) {
  PprofProfile profile(std::vector<PprofValueType>{{"samples", "count"}});
  profile.add_mapping({.file = profile.add_text("all")});
  constexpr std::uint64_t kStacks = 6000;
  for (std::uint64_t i = 0; i < kStacks; ++i) {
    const std::uint32_t name = profile.add_text(long_name_of(i, 1024));
    const PprofLine line{.function = profile.add_function({.name = name, .system_name = name})};
    const std::uint32_t frame = profile.add_location({.mapping = 0}, {&line, 1});
    profile.add_sample({.labels = profile.add_labels({}), .stack = profile.add_stack({&frame, 1})},
                       std::array{std::int64_t{1}});
  }
  int trials = 0;
  const std::string bytes = encode_within(1000, profile, [&](const PprofProfile& now, double) {
    ++trials;
    return std::string(now.bytes(), 'x');
  });
  EXPECT_LE(trials, 5);
  EXPECT_GT(bytes.size(), kStacks * 1024);
  std::int64_t samples = 0;
  for (std::size_t i = 0; i < profile.samples().size(); ++i) samples += profile.values(i)[0];
  EXPECT_EQ(samples, std::int64_t{kStacks});
}

}  // namespace
}  // namespace profd
