#include "daemon/history/user_shares.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "collectors/sandbox/privileges.h"
#include "daemon/history/view.h"
#include "daemon/profiles/process_labels.h"
#include "formats/base/gzip.h"
#include "tests/daemon/callers.h"
#include "tests/daemon/history/fabricated_windows.h"
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

WindowSums sums_of(const NamedWindow& window) {
  WindowSums sums;
  for (std::size_t i = 0; i < window.record().profiles.size(); ++i) {
    sums.add(window.summary().profiles[i], window.record().profiles[i]);
  }
  return sums;
}

UserParts limit(PprofProfile& profile, const NamedWindow& window, const UserLimits& limits = {}) {
  WindowSums sums = sums_of(window);
  UidOwners each_its_own("/nonexistent", "/nonexistent");
  return limit_user_shares(profile, sums, each_its_own, limits);
}

// As the daemon writes it.
struct LimitedWindow {
  UserParts parts;
  std::string bytes;
  WindowFile file;
};

LimitedWindow write_limited(const NamedWindow& window, const UserLimits& limits,
                            UidOwners owners = UidOwners("/nonexistent", "/nonexistent")) {
  PprofProfile profile = window.profile();
  WindowSums sums = sums_of(window);
  UserParts parts = limit_user_shares(profile, sums, owners, limits);
  SessionSummary summary = window.summary();
  WindowRecord record = window.record();
  std::move(sums).finish(profile, summary, record);
  record.named_files.clear();
  std::string bytes = encode_window(std::move(profile), summary, record, {.users = parts.users});
  WindowFile file = WindowFile::decode(bytes).value();
  return {.parts = std::move(parts), .bytes = std::move(bytes), .file = std::move(file)};
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
  const std::uint64_t over = limit(profile, window, {.others = kLimit}).over_share_samples;
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

// Processes of one user, each with a file of its own at a long path, and stacks of equal names.
void add_long_paths(NamedWindow& window, std::uint32_t first_pid, std::uint32_t user) {
  for (std::uint32_t i = 0; i < 400; ++i) {
    std::string path = "/home/" + std::to_string(first_pid + i) + "/" + std::string(900, 'p');
    window.add({.pid = first_pid + i,
                .comm = "paths",
                .user = user,
                .file = std::move(path),
                .stacks = {{{"work"}, 1}}});
  }
}

TEST(UserSharesTest, PathsOfMappedFilesCountForTheirUser) {
  NamedWindow window(kSharesStart);
  add_long_paths(window, 1000, 4001);
  window.add({.pid = 8, .comm = "other", .user = 4002, .stacks = {{{"calm"}, 5}}});
  PprofProfile profile = window.profile();
  const UserParts parts = limit(profile, window, {.others = kLimit});
  EXPECT_GT(parts.over_share_samples, 300U);
  EXPECT_EQ(parts.over_share_by_uid, (SamplesByUser{{4001, parts.over_share_samples}}));
  std::size_t path_bytes = 0;
  for (const PprofMapping& mapping : profile.mappings()) {
    path_bytes += profile.text(mapping.file).size();
  }
  EXPECT_LT(path_bytes, kLimit);
  const test::Report report = report_of(profile, window);
  EXPECT_EQ(report.total, 405U);
  EXPECT_EQ(report.rows.at("[over share]").flat, parts.over_share_samples);
  EXPECT_EQ(report.rows.at("calm").flat, 5U);
}

// Their entries in the file stay, but leave less room for stacks.
TEST(UserSharesTest, ProcessesCountForTheirUser) {
  const auto bytes_of_user = [](std::uint32_t processes) {
    NamedWindow window(kSharesStart);
    for (std::uint32_t i = 0; i < processes; ++i) {
      window.add({.pid = 100 + i,
                  .comm = "long-name-" + std::to_string(i),
                  .user = 4001,
                  .stacks = {{{"work"}, 1}}});
    }
    PprofProfile profile = window.profile();
    return limit(profile, window).users.at(0).bytes;
  };
  EXPECT_GT(bytes_of_user(101), bytes_of_user(1) + 100 * 100) << "more than their stacks";
}

constexpr ProcessOwner kAlices{.uid = 4001, .gid = 4001};
constexpr ProcessOwner kBobs{.uid = 4002, .gid = 4002};
constexpr std::uint32_t kShortLived = 3000;

// Each has a name and a cgroup of its own.
void add_short_lived(NamedWindow& window, std::uint32_t first_pid, std::uint32_t uid,
                     std::optional<ProcessOwner> owner) {
  for (std::uint32_t i = 0; i < kShortLived; ++i) {
    window.add({.pid = first_pid + i,
                .comm = "short" + std::to_string(first_pid + i),
                .owner = owner,
                .user = uid,
                .cgroup = "/user.slice/app-" + std::to_string(i) + std::string(400, '"'),
                .stacks = {{{"work", "main"}, 1}}});
  }
}

std::uint64_t samples_of(const WindowView& view, const std::string& comm) {
  std::uint64_t samples = 0;
  for (const ProfileSummary& process : view.summary.profiles) {
    if (process.comm == comm) samples += process.samples;
  }
  return samples;
}

TEST(UserSharesTest, ProcessesOverHalfOfTheLimitAreOneThatTheirOwnerSees) {
  NamedWindow window(kSharesStart);
  window.add({.pid = 7, .comm = "busy", .owner = kAlices, .user = 4001, .stacks = {{{"hot"}, 9}}});
  add_short_lived(window, 1000, 4001, kAlices);
  for (std::uint32_t i = 0; i < 20; ++i) {
    window.add({.pid = 100 + i, .comm = "root", .stacks = {{{"calm"}, 5}}});
    window.add(
        {.pid = 200 + i, .comm = "bobs", .owner = kBobs, .user = 4002, .stacks = {{{"calm"}, 5}}});
  }
  const LimitedWindow limited = write_limited(window, {.others = kLimit});
  EXPECT_LT(unpack_gzip(limited.bytes, 64 << 20)->size(), kLimit + 41 * 1000);
  EXPECT_LE(limited.parts.users.at(0).bytes, kLimit);
  const SessionSummary& summary = limited.file.summary();
  std::uint64_t sum = 0;
  for (const ProfileSummary& process : summary.profiles) sum += process.samples;
  EXPECT_EQ(sum, 9 + kShortLived + 2 * 20 * 5);
  const test::ScratchDirectory scratch;
  const test::Report report = test::go_report(scratch.write("w.pb.gz", limited.bytes));
  EXPECT_EQ(report.total, sum);
  EXPECT_EQ(report.rows.at("[over share]").flat, limited.parts.over_share_samples);
  const WindowView all = view_window(limited.file, test::kRoot);
  EXPECT_EQ(samples_of(all, "root"), 100U);
  const std::uint64_t folded = samples_of(all, "[over share]");
  EXPECT_GT(folded, kShortLived - 100);
  const WindowView alices = view_window(limited.file, test::kAlice);
  EXPECT_EQ(samples_of(alices, "[over share]"), folded);
  EXPECT_EQ(samples_of(alices, "busy"), 9U);
  EXPECT_EQ(alices.summary.ledger.written, 9 + kShortLived);
  const WindowView bobs = view_window(limited.file, test::kBob);
  EXPECT_EQ(bobs.profiles.size(), 20U);
  EXPECT_EQ(samples_of(bobs, "bobs"), 100U);
}

TEST(UserSharesTest, ProcessesWithoutOneOwnerAreFoldedForPrivilegedCallersAlone) {
  NamedWindow window(kSharesStart);
  add_short_lived(window, 10'000, 4001, std::nullopt);
  add_short_lived(window, 20'000, 4001, kAlices);
  add_short_lived(window, 30'000, 4001, ProcessOwner{.uid = 4001, .gid = 50});
  const LimitedWindow limited = write_limited(window, {.others = kLimit});
  const WindowView all = view_window(limited.file, test::kRoot);
  EXPECT_EQ(all.summary.ledger.written, 3 * kShortLived);
  EXPECT_GT(samples_of(all, "[over share]"), 3 * kShortLived - 100);
  EXPECT_EQ(std::ranges::count(all.summary.profiles, "[over share]", &ProfileSummary::comm), 2);
  const WindowView alices = view_window(limited.file, test::kAlice);
  EXPECT_EQ(samples_of(alices, "[over share]"), kShortLived);
  const Caller of_group{.uid = 4001, .gid = 50, .pid = 5, .privileged = false};
  EXPECT_EQ(samples_of(view_window(limited.file, of_group), "[over share]"), 0U);
}

TEST(UserSharesTest, UsersWithManyIdsHaveFewFoldedProcesses) {
  NamedWindow window(kSharesStart);
  for (std::uint32_t uid = 5000; uid < 5400; ++uid) {
    for (std::uint32_t i = 0; i < 10; ++i) {
      window.add({.pid = uid * 10 + i,
                  .comm = "ids",
                  .owner = ProcessOwner{.uid = uid, .gid = uid},
                  .user = uid,
                  .stacks = {{{"work"}, 1}}});
    }
  }
  const LimitedWindow limited = write_limited(window, {.others = 4000});
  EXPECT_LT(limited.file.summary().profiles.size(), 100U);
  EXPECT_EQ(view_window(limited.file, test::kRoot).summary.ledger.written, 4000U);
}

TEST(UserSharesTest, RootHasNoLimit) {
  NamedWindow window(kSharesStart);
  window.add(flood(7, 0));
  PprofProfile profile = window.profile();
  EXPECT_EQ(limit(profile, window, {.others = kLimit}).over_share_samples, 0U);
  EXPECT_EQ(report_of(profile, window).rows.count("[over share]"), 0U);
}

TEST(UserSharesTest, TheDaemonsSandboxedProcessesHaveNoLimitAndNoShare) {
  NamedWindow window(kSharesStart);
  window.add(flood(7, sandbox::kSandboxUser));
  PprofProfile profile = window.profile();
  const UserParts parts = limit(profile, window, {.others = kLimit});
  EXPECT_EQ(parts.over_share_samples, 0U);
  EXPECT_TRUE(parts.users.empty());
}

TEST(UserSharesTest, ManyUsersHaveOneShareTogetherBeyondTheFirst) {
  NamedWindow window(kSharesStart);
  constexpr std::uint32_t kUsers = 40;
  for (std::uint32_t i = 0; i < kUsers; ++i) window.add(flood(100 + i, 5000 + i));
  PprofProfile profile = window.profile();
  EXPECT_GT(limit(profile, window, {.others = kLimit}).over_share_samples, 0U);
  const std::string bytes = encode_window(profile, window.summary(), window.record());
  EXPECT_LT(unpack_gzip(bytes, 1 << 22)->size(), 2 * (kMaxSharingUsers + 1) * kLimit);
  EXPECT_EQ(report_of(profile, window).total, kUsers * 500U);
}

// 4001 has 1,000 uids from 200,000 on.
TEST(UserSharesTest, SubordinateUidsHaveTheShareOfTheirUser) {
  NamedWindow window(kSharesStart);
  for (std::uint32_t i = 0; i < 20; ++i) window.add(flood(100 + i, 200'000 + i));
  NamedProcess bobs = flood(8, 4002);
  bobs.owner = kBobs;
  window.add(bobs);
  const test::ScratchDirectory scratch;
  const UidOwners owners(scratch.write("subuid", "alice:200000:1000\n"),
                         scratch.write("passwd", "alice:x:4001:4001::/:/bin/sh\n"));
  const LimitedWindow limited = write_limited(window, {.others = kLimit}, owners);
  std::vector<std::uint32_t> uids;
  for (const UserBytes& user : limited.parts.users) uids.push_back(user.uid);
  EXPECT_THAT(uids, testing::UnorderedElementsAre(4001, 4002));
  EXPECT_LT(unpack_gzip(limited.bytes, 64 << 20)->size(), 3 * kLimit);
  EXPECT_GT(limited.parts.over_share_by_uid.at(4001), 20 * 300U);
  EXPECT_LT(limited.parts.over_share_by_uid.at(4002), 400U) << "of a share of its own";
  const WindowView all = view_window(limited.file, test::kRoot);
  EXPECT_EQ(all.summary.ledger.written, 21 * 500U);
  EXPECT_EQ(all.profiles.at(0).user, 200'000U) << "its label and its owner stay";
}

TEST(UserSharesTest, TheHeaderSaysWhatEachUserHasOfTheFile) {
  NamedWindow window(kSharesStart);
  window.add(flood(7, 4001)).add({.pid = 8, .comm = "root", .user = 0, .stacks = {{{"calm"}, 5}}});
  PprofProfile profile = window.profile();
  const UserParts parts = limit(profile, window);
  ASSERT_EQ(parts.users.size(), 1U);
  EXPECT_EQ(parts.users[0].uid, 4001U);
  const std::string bytes =
      encode_window(profile, window.summary(), window.record(), {.users = parts.users});
  const WindowHead head = decode_window_head(bytes).value();
  ASSERT_EQ(head.parts.users.size(), 1U);
  EXPECT_EQ(head.parts.users[0].uid, 4001U);
  EXPECT_GT(head.parts.users[0].bytes, bytes.size() / 2);
  EXPECT_LE(head.parts.users[0].bytes, bytes.size());
}

TEST(UserSumsTest, AUserHasLessOfANewFileTheMoreIsStored) {
  constexpr std::uint64_t kMax = 8 << 20;
  UserSums sums;
  EXPECT_EQ(sums.limits(kMax, 64, 1 << 30).of(4001), (1U << 20) / 64 * 4);
  sums.add({{.uid = 4001, .bytes = 1 << 19}, {.uid = 4002, .bytes = 1 << 20}});
  const UserLimits limits = sums.limits(kMax, 64, 1 << 30);
  EXPECT_EQ(limits.of(4001), (1U << 19) / 64 * 4);
  EXPECT_EQ(limits.of(4002), 0U);
  EXPECT_EQ(limits.of(4003), (1U << 20) / 64 * 4);
  EXPECT_EQ(limits.of(std::nullopt), (1U << 20) / 64 * 4);
  EXPECT_EQ(sums.limits(kMax, 64, 100).of(4003), 100U);
}

TEST(UserSumsTest, AllUsersTogetherHaveHalf) {
  UserSums sums;
  for (std::uint32_t uid = 5000; uid < 5008; ++uid) sums.add({{.uid = uid, .bytes = 1 << 19}});
  EXPECT_EQ(sums.limits(8 << 20, 64, 1 << 30).of(6000), 0U);
  EXPECT_EQ(sums.limits(8 << 20, 64, 1 << 30).of(5000), 0U);
}

TEST(UserSumsTest, UsersBeyondTheTableHaveOneSum) {
  UserSums sums;
  for (std::uint32_t uid = 1; uid <= 2 * UserSums::kMaxUsers; ++uid) {
    sums.add({{.uid = uid, .bytes = 1}});
  }
  EXPECT_LE(sums.limits(1 << 20, 1, 1 << 20).by_uid.size(), UserSums::kMaxUsers + 1);
  EXPECT_EQ(sums.limits(1 << 20, 1, 1 << 20).of(std::nullopt),
            ((1U << 17) - UserSums::kMaxUsers) * 4);
}

// A history of 64 MiB with windows of yesterday, and then minutes in which one user floods it with
// stacks that never repeat and names that can't be packed.
class FloodTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;
  static constexpr int kOfYesterday = 5;

  FloodTest() {
    std::vector<std::string> names;
    for (int minute = 0; minute < kOfYesterday; ++minute) {
      names.push_back(files_.add(kYesterday + std::chrono::minutes(minute),
                                 {{.pid = 8, .comm = "calm", .stacks = {{{"calm"}, 5}}}}));
    }
    (void)files_.add_hour(kYesterday, names);
    store_.emplace(files_.open());
  }

  NamedProcess flood_of(int minute) {
    NamedProcess process{.pid = 7, .comm = "flood", .user = 4001};
    for (int i = 0; i < 1100; ++i) {
      std::string name = std::to_string(minute) + "_";
      while (name.size() < 900) name += static_cast<char>('!' + random_() % 90);
      process.stacks.push_back({{name}, 1});
    }
    return process;
  }

  void add_minute(int minute, const UserLimits& limits) {
    NamedWindow window(kSharesStart + std::chrono::minutes(minute));
    window.add(flood_of(minute)).add({.pid = 8, .comm = "calm", .stacks = {{{"calm"}, 5}}});
    PprofProfile profile = window.profile();
    UserParts parts = limit(profile, window, limits);
    EXPECT_GT(parts.over_share_samples, 0U);
    const std::string bytes = encode_window(std::move(profile), window.summary(), window.record(),
                                            {.users = std::move(parts.users)});
    const WindowHead head = decode_window_head(bytes).value();
    add_file({.name = window.name(),
              .start = head.start,
              .end = head.end,
              .disk_bytes = disk_bytes_of(bytes.size()),
              .users = head.parts.users});
  }

  void add_file(WindowInfo window) {
    const auto now = window.end;
    store_->adopt(std::move(window));
    (void)store_->evict({.max_age = std::chrono::hours(48),
                         .max_bytes = kMaxBytes,
                         .hours_max_age = std::chrono::hours(720)},
                        now);
  }

  [[nodiscard]] std::size_t windows_of_yesterday() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(store_->windows(), [](const WindowInfo& window) {
          return window.start < kYesterday + std::chrono::hours(1);
        }));
  }

  static constexpr auto kYesterday = kSharesStart - std::chrono::hours(24);

  test::FabricatedWindows files_;
  std::optional<WindowStore> store_;
  std::minstd_rand random_{1};
};

TEST_F(FloodTest, OneUserCanNotDisplaceTheWindowsOfOthers) {
  for (int minute = 0; minute < 120; ++minute) {
    add_minute(minute, store_->window_limits(kMaxBytes));
  }
  EXPECT_EQ(windows_of_yesterday(), kOfYesterday);
  std::uint64_t of_user = 0;
  for (const WindowInfo& window : store_->windows()) {
    for (const UserBytes& user : window.users) of_user += user.bytes;
  }
  EXPECT_GT(of_user, kMaxBytes / 32) << "the user has a share";
  EXPECT_LE(of_user, kMaxBytes / 16) << "of the half for windows, an eighth";
  EXPECT_LE(store_->disk_bytes(), kMaxBytes / 8);
}

// The same flood without that limit: so the test above can fail.
TEST_F(FloodTest, TheLimitOfAWindowAloneWouldNotPreventThat) {
  add_minute(0, UserLimits());
  WindowInfo window = store_->windows().back();
  for (int minute = 1; minute < 300; ++minute) {
    window.start += std::chrono::minutes(1);
    window.end += std::chrono::minutes(1);
    window.name = window_name(window.start);
    add_file(window);
  }
  EXPECT_LT(windows_of_yesterday(), kOfYesterday)
      << store_->windows().size() << " windows, " << store_->disk_bytes() << " bytes";
}

}  // namespace
}  // namespace profd
