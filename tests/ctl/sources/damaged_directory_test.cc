// A directory of record of which something is missing, cut or of another kind: what can be read is
// shown, and what cannot has a reason.

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/parse.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/api/session_summary.h"
#include "formats/profile/times_file.h"
#include "tests/ctl/profctl_fixture.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Its profiles are work.1.prof with 5 samples and work.2.prof with 490.
class DamagedDirectoryTest : public test::ProfctlTest {
 protected:
  using Damage = std::function<void(const fs::path&)>;

  // The ways in which a file is no file to read, with what is said of each.
  static std::vector<std::pair<std::string, Damage>> damages() {
    return {{"No such file", [](const fs::path& file) { fs::remove(file); }},
            {"No such file", [](const fs::path& file) { link_to("nothing", file); }},
            {"symbolic links", [](const fs::path& file) { link_to(file.filename(), file); }},
            {"not a regular file", make_directory},
            {"not a regular file", make_fifo}};
  }
  static std::vector<std::pair<std::string, Damage>> damages_of_content() {
    return {{"it is empty", [](const fs::path& file) { fs::resize_file(file, 0); }},
            {"work.1.prof: ", cut_in_first_record},
            {"work.1.prof: ", [](const fs::path& file) { std::ofstream(file) << "no profile"; }}};
  }
  static void cut_in_half(const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); }
  // The header takes 40 bytes, and the record of a stack of one address 24.
  static void cut_in_first_record(const fs::path& file) { fs::resize_file(file, 60); }
  static void link_to(const fs::path& target, const fs::path& file) {
    fs::remove(file);
    fs::create_symlink(target, file);
  }
  static void make_directory(const fs::path& file) {
    fs::remove(file);
    fs::create_directory(file);
  }
  static void make_fifo(const fs::path& file) {
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  }

  void make_result() {
    fs::remove_all(out_);
    ASSERT_EQ(run({"stop", "5f2c01ab", "-o", out_}).code, 0);
  }
  static std::int64_t samples_of(const Ran& ran) {
    EXPECT_EQ(ran.code, 0) << ran.err;
    const auto report = boost::json::parse(ran.out.empty() ? R"({"all":{"samples":0}})" : ran.out);
    return report.at("all").at("samples").as_int64();
  }
  static void expect_refused(const Ran& ran, int code, const std::string& why,
                             const std::string& hint) {
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(why));
    EXPECT_THAT(ran.err, HasSubstr("hint"));
    EXPECT_THAT(ran.err, HasSubstr(hint));
    EXPECT_EQ(ran.out, "");
  }
};

TEST_F(DamagedDirectoryTest, TheOtherProfilesAreShown) {
  auto all = damages();
  for (auto& one : damages_of_content()) all.push_back(std::move(one));
  for (const auto& [why, damage] : all) {
    make_result();
    damage(out_ / "work.1.prof");
    const Ran ran = run({"report", out_, "--by", "process", "--json"});
    EXPECT_EQ(samples_of(ran), 490) << why;
    EXPECT_THAT(ran.err, HasSubstr("1 of 2 profiles could not be read, and their samples are "
                                   "missing: "));
    EXPECT_THAT(ran.err, HasSubstr(why));
    EXPECT_THAT(ran.err, HasSubstr("work.1.prof"));
  }
}

// Another user chooses how many there are, and how long each takes to be read.
TEST_F(DamagedDirectoryTest, ManyUnreadProfilesOfAnotherUserEndTheReading) {
  ASSERT_EQ(::geteuid(), 0U) << "needs root: it gives files away";
  constexpr std::size_t kMost = 16;
  constexpr uid_t kRoot = 0;
  constexpr uid_t kStranger = 12345;
  const auto report_with = [this](std::size_t unread, uid_t owner) {
    make_result();
    SessionSummary summary = service_.result.summary;
    for (std::size_t i = 0; i < unread; ++i) {
      ProfileSummary profile;
      profile.pid = static_cast<std::uint32_t>(100 + i);
      profile.comm = "bad";
      profile.path = "bad." + std::to_string(profile.pid) + ".prof";
      const fs::path file = out_ / profile.path;
      std::ofstream(file) << "no profile";
      EXPECT_EQ(::chown(file.c_str(), owner, owner), 0);
      summary.profiles.push_back(std::move(profile));
    }
    std::ofstream(out_ / "session.json") << to_json(summary);
    return run({"report", out_, "--by", "process", "--json"});
  };
  EXPECT_EQ(samples_of(report_with(kMost - 1, kStranger)), 495);
  EXPECT_EQ(samples_of(report_with(kMost + 1, kRoot)), 495);
  expect_refused(report_with(kMost, kStranger), kExitFailed, "16 profiles of another user in ",
                 "one by one: profctl report " + out_.string() + "/COMM.PID.prof");
}

TEST_F(DamagedDirectoryTest, WithoutAnyProfileTheFirstErrorIsSaid) {
  make_result();
  fs::remove(out_ / "work.1.prof");
  fs::remove(out_ / "work.2.prof");
  expect_refused(run({"report", out_}), kExitNotFound, "work.1.prof",
                 "session.json lists it: copy the whole directory");
  make_result();
  make_fifo(out_ / "work.1.prof");
  cut_in_first_record(out_ / "work.2.prof");
  expect_refused(run({"report", out_}), kExitUsage, "work.1.prof is not a regular file", "");
}

TEST_F(DamagedDirectoryTest, WithoutItsSummaryItsFilesCanBeShown) {
  make_result();
  fs::remove(out_ / "session.json");
  expect_refused(run({"report", out_}), kExitUsage, "has no session.json", "name one of its files");
  EXPECT_EQ(samples_of(run({"report", out_ / "work.2.prof", "--json"})), 490);
  const std::string hint = "one by one: profctl report " + out_.string() + "/COMM.PID.prof";
  make_result();
  cut_in_half(out_ / "session.json");
  expect_refused(run({"report", out_}), kExitFailed, "session.json", hint);
  fs::resize_file(out_ / "session.json", 0);
  expect_refused(run({"report", out_}), kExitFailed, "session.json", hint);
  make_fifo(out_ / "session.json");
  expect_refused(run({"report", out_}), kExitUsage, "session.json is not a regular file", "");
  make_directory(out_ / "session.json");
  expect_refused(run({"report", out_}), kExitUsage, "session.json is not a regular file", "");
}

TEST_F(DamagedDirectoryTest, DamagedTimesLeaveTheSamplesAsTheyAre) {
  const std::string of_others =
      encode_times_file({.start_ns = 1, .times = {.entries = {{.sample = 7, .count = 1}}}});
  for (const std::string& bytes : {std::string(), std::string("x"), of_others}) {
    make_result();
    std::ofstream(out_ / "times.bin") << bytes;
    const Ran ran = run({"report", out_, "--json", "--by", "process"});
    EXPECT_EQ(samples_of(ran), 495);
    EXPECT_THAT(ran.err, HasSubstr("the times of its samples are not known: "));
    EXPECT_THAT(ran.err, HasSubstr("times.bin"));
  }
  make_result();
  std::ofstream(out_ / "times.bin") << "x";
  make_fifo(out_ / "times.bin");
  const Ran ran = run({"report", out_, "--json", "--by", "process"});
  EXPECT_EQ(samples_of(ran), 495);
  EXPECT_THAT(ran.err, HasSubstr("times.bin is not a regular file"));
}

}  // namespace
}  // namespace profd
