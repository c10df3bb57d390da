// What callers without rights may do: their own processes and nothing else.

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "formats/profile/gperftools_reader.h"
#include "tests/e2e/lifecycle_fixture.h"

namespace profd::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class OthersTest : public LifecycleTest {
 protected:
  Ended as(uid_t uid, const Args& args) {
    Process::Options options;
    options.uid = uid;
    options.directory = directory_.path();
    return daemon_.profctl(args, options);
  }

  void SetUp() override {
    std::filesystem::permissions(directory_.path(), std::filesystem::perms(01777));
  }

  static Process::Options owner(uid_t uid) {
    Process::Options options;
    options.uid = uid;
    return options;
  }
};

TEST_F(OthersTest, ProfileTheirOwnProcessesWithoutKernelAddresses) {
  Process mine({workload("reader"), "600"}, owner(kSomebody));
  const Ended started = as(kSomebody, {"start", "-F", "499", "--pid", std::to_string(mine.pid())});
  ASSERT_EQ(started.status, 0) << started.err;
  const std::string id = first_line(started.out);
  wait_for_samples(id, 200);
  const Ended stopped = as(kSomebody, {"stop", id, "-o", output_});
  ASSERT_EQ(stopped.status, 0) << stopped.err;
  const SessionSummary summary = read_summary(output_);
  EXPECT_EQ(summary.ledger.difference(), 0);
  ASSERT_THAT(summary.profiles, SizeIs(1));
  struct stat status {};
  ASSERT_EQ(::stat((output_ / summary.profiles[0].path).c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, kSomebody);
  for (const Report& report :
       {go_pprof(output_ / summary.profiles[0].path),
        perl_pprof(workload("reader"), output_ / summary.profiles[0].path)}) {
    ASSERT_TRUE(report.flat.contains("[kernel]")) << report.text;
    EXPECT_GE(report.flat.at("[kernel]"), 80) << report.text;
    EXPECT_FALSE(report.cumulative.contains("vfs_read")) << report.text;
  }
  const Result<Profile> profile = decode_gperftools(slurp(output_ / summary.profiles[0].path));
  ASSERT_TRUE(profile);
  std::vector<std::uint64_t> kernel;
  for (const Profile::Record& record : profile->records()) {
    for (const std::uint64_t pc : profile->pcs(record)) {
      if (pc >> 48 != 0) kernel.push_back(pc);
    }
  }
  std::ranges::sort(kernel);
  kernel.erase(std::ranges::unique(kernel).begin(), kernel.end());
  EXPECT_LE(kernel.size(), 2u) << "one address, as leaf and as caller";
}

TEST_F(OthersTest, AreRefusedEverythingElse) {
  Process theirs({workload("shares"), "600"}, owner(kSomebody));
  const std::string id = start({"--pid", busy_pid_});
  const Args refused[] = {
      {"start", "--pid", busy_pid_},
      {"start", "--pid", std::to_string(theirs.pid())},
      {"start", "-a"},
      {"start", "--uid", "0"},
      {"stop", id, "-o", output_},
      {"dump", id, "-o", output_},
      {"record", "--pid", busy_pid_, "-d", "1", "-o", output_},
  };
  for (const Args& args : refused) {
    const Ended ended = as(kNobody, args);
    EXPECT_EQ(ended.status, 5) << ::testing::PrintToString(args) << ended.err;
    EXPECT_THAT(ended.err, Not(IsEmpty()));
  }
  EXPECT_EQ(as(kNobody, {"list", "--json"}).out, "{\"sessions\":[]}\n");
  EXPECT_FALSE(std::filesystem::exists(output_ / "session.json"));
  EXPECT_EQ(daemon_.profctl({"stop", id, "-o", output_}).status, 0);
}

TEST_F(OthersTest, SeeOnlyTheirOwnProcessesBehindANameThatOthersBear) {
  Process mine({workload("shares"), "600"}, owner(kSomebody));
  const Ended started = as(kSomebody, {"start", "-F", "499", "-n", "shares"});
  ASSERT_EQ(started.status, 0) << started.err;
  const std::string id = first_line(started.out);
  wait_for_samples(id, 100);
  ASSERT_EQ(as(kSomebody, {"stop", id, "-o", output_}).status, 0);
  const SessionSummary summary = read_summary(output_);
  ASSERT_THAT(summary.profiles, SizeIs(1));
  EXPECT_EQ(summary.profiles[0].pid, static_cast<std::uint32_t>(mine.pid()));
}

TEST_F(OthersTest, HoldFourSessionsAtMost) {
  Process mine({workload("shares"), "600"}, owner(kSomebody));
  const Args args{"start", "--pid", std::to_string(mine.pid())};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(as(kSomebody, args).status, 0);
  const Ended fifth = as(kSomebody, args);
  EXPECT_NE(fifth.status, 0);
  EXPECT_THAT(fifth.err, HasSubstr("4"));
  EXPECT_EQ(start({"--pid", busy_pid_}).empty(), false);
}

}  // namespace
}  // namespace profd::e2e
