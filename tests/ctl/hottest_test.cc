// The functions that stop and record name at the end, against what Go's pprof prints of the file.

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "formats/profile/pprof_writer.h"
#include "tests/ctl/profctl_fixture.h"
#include "tests/ctl/views/pprof_traces.h"
#include "tests/ctl/views/random_profile.h"

namespace profd {
namespace {

using testing::HasSubstr;
using testing::Not;

class HottestTest : public test::ProfctlTest {
 protected:
  HottestTest() {
    random_.add(300);
    give(random_.profile());
  }

  void give(const PprofProfile& profile) {
    service_.files["profile.pb.gz"] = encode_pprof_gzip(profile);
    service_.result.named_profile =
        ResultFile{"profile.pb.gz", service_.files["profile.pb.gz"].size()};
  }

  test::RandomProfile random_{5};
};

TEST_F(HottestTest, StopEndsWithTheFiveFunctionsThatPprofPutsFirst) {
  const std::string file = out_.string() + ".pb.gz";
  const Ran ran = run({"stop", "5f2c01ab", "-o", file});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const test::TraceSums sums = test::function_sums(test::traces_of(file));
  std::int64_t all = 0;
  std::vector<std::int64_t> most;
  for (const auto& [name, sum] : sums) {
    all += sum.self;
    most.push_back(sum.self);
  }
  std::ranges::sort(most, std::ranges::greater());
  std::istringstream lines(ran.err.substr(ran.err.find("of their own:\n")));
  std::string line;
  std::getline(lines, line);
  for (int i = 0; i < 5; ++i) {
    double percent = 0;
    std::string sign;
    std::string name;
    lines >> percent >> sign >> name;
    ASSERT_TRUE(sums.contains(name)) << name;
    EXPECT_EQ(sums.at(name).self, most[static_cast<std::size_t>(i)]);
    EXPECT_NEAR(percent, 100.0 * static_cast<double>(sums.at(name).self) / static_cast<double>(all),
                0.06);
  }
  std::getline(lines, line);
  std::getline(lines, line);
  EXPECT_EQ(line, "hint: profctl report " + file + " shows all, with --tree their callers");
  EXPECT_FALSE(std::getline(lines, line));
}

TEST_F(HottestTest, ADirectoryIsNamedAsASourceOfReport) {
  const std::string blank = (directory_.path() / "a b'c").string();
  const Ran ran = run({"stop", "5f2c01ab", "-o", blank});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("hint: profctl report '" + (directory_.path() / "a b").string() +
                                 "'\\''c' shows all"));
  EXPECT_THAT(ran.err, HasSubstr("ns::work_"));
}

TEST_F(HottestTest, JsonHasNoSuchLines) {
  const Ran ran = run({"stop", "5f2c01ab", "--json", "-o", out_});
  EXPECT_EQ(ran.out, to_json(service_.result.summary) + "\n");
  EXPECT_EQ(ran.err, kLossOfResult);
}

TEST_F(HottestTest, AFileThatReportCannotReadIsNotNamed) {
  const Ran ran = run({"stop", "5f2c01ab", "-o", out_.string() + ".speedscope.json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("ns::work_"));
  EXPECT_THAT(ran.err, Not(HasSubstr("hint")));
}

TEST_F(HottestTest, AResultWithoutSamplesOrNamesHasNoFunctions) {
  give(test::RandomProfile(1).profile());
  EXPECT_EQ(run({"stop", "5f2c01ab", "-o", out_ / "empty"}).err, kLossOfResult);
  service_.files["profile.pb.gz"] = "no profile";
  service_.result.named_profile = ResultFile{"profile.pb.gz", 10};
  const Ran ran = run({"stop", "5f2c01ab", "-o", out_ / "malformed"});
  EXPECT_EQ(ran.code, 0) << "the directory is complete";
  EXPECT_EQ(ran.err, kLossOfResult);
}

}  // namespace
}  // namespace profd
