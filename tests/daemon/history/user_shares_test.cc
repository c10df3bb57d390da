#include "daemon/history/user_shares.h"

#include <string>

#include <gmock/gmock.h>

#include "daemon/profiles/process_labels.h"
#include "formats/base/gzip.h"
#include "tests/daemon/history/named_windows.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using test::NamedProcess;
using test::NamedWindow;

constexpr std::chrono::system_clock::time_point kSharesStart{std::chrono::seconds(1'767'362'700)};
constexpr std::size_t kLimit = std::size_t{64} << 10;

// Chains that never repeat, of functions with long names.
NamedProcess flood(std::uint32_t pid, std::uint32_t uid) {
  NamedProcess process{.pid = pid, .comm = "flood" + std::to_string(pid), .user = uid};
  process.stacks.push_back({{"the_hottest"}, 100});
  for (int i = 0; i < 400; ++i) {
    const std::string name = std::to_string(pid) + "_" + std::to_string(i) + std::string(900, 'x');
    process.stacks.push_back({{name, "caller" + std::to_string(i), "main"}, 1});
  }
  return process;
}

UsersOfLabels users_of(const NamedWindow& window) {
  UsersOfLabels users;
  for (std::uint32_t set = 0; set < window.profile().labels_count(); ++set) {
    const ProcessLabels labels = labels_of(window.profile(), set);
    for (const WindowProfile& profile : window.record().profiles) {
      if (profile.labels == labels) users[set] = profile.user;
    }
  }
  return users;
}

test::Report report_of(const PprofProfile& profile, const NamedWindow& window) {
  const test::ScratchDirectory scratch;
  return test::go_report(
      scratch.write("w.pb.gz", encode_window(profile, window.summary(), window.record())));
}

TEST(UserSharesTest, AFloodBecomesOneStackAndNoSampleIsLost) {
  NamedWindow window(kSharesStart);
  window.add(flood(7, 4001))
      .add({.pid = 8, .comm = "other", .user = 4002, .stacks = {{{"calm"}, 5}}});
  PprofProfile profile = window.profile();
  const std::uint64_t over = limit_user_shares(profile, users_of(window), kLimit);
  EXPECT_GT(over, 300U);
  EXPECT_LT(over, 400U);
  const test::Report report = report_of(profile, window);
  EXPECT_EQ(report.total, 505U);
  EXPECT_EQ(report.rows.at("[over share]").flat, over);
  EXPECT_EQ(report.rows.at("the_hottest").flat, 100U);
  EXPECT_EQ(report.rows.at("calm").flat, 5U);
  EXPECT_EQ(profile.time_ns, window.profile().time_ns);
  EXPECT_EQ(profile.duration_ns, window.profile().duration_ns);
  EXPECT_EQ(profile.period, window.profile().period);
  const std::string bytes = encode_window(profile, window.summary(), window.record());
  EXPECT_LT(unpack_gzip(bytes, 1 << 20)->size(), 2 * kLimit);
}

TEST(UserSharesTest, RootHasNoLimit) {
  NamedWindow window(kSharesStart);
  window.add(flood(7, 0));
  PprofProfile profile = window.profile();
  EXPECT_EQ(limit_user_shares(profile, users_of(window), kLimit), 0U);
  EXPECT_EQ(report_of(profile, window).rows.count("[over share]"), 0U);
}

TEST(UserSharesTest, ManyUsersHaveOneShareTogetherBeyondTheFirst) {
  NamedWindow window(kSharesStart);
  constexpr std::uint32_t kUsers = 40;
  for (std::uint32_t i = 0; i < kUsers; ++i) window.add(flood(100 + i, 5000 + i));
  PprofProfile profile = window.profile();
  EXPECT_GT(limit_user_shares(profile, users_of(window), kLimit), 0U);
  const std::string bytes = encode_window(profile, window.summary(), window.record());
  EXPECT_LT(unpack_gzip(bytes, 1 << 22)->size(), 2 * (kMaxSharingUsers + 1) * kLimit);
  EXPECT_EQ(report_of(profile, window).total, kUsers * 500U);
}

}  // namespace
}  // namespace profd
