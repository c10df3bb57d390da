#include "daemon/storage/result_store.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "daemon/profiles/profile_files.h"
#include "daemon/storage/result_writer.h"
#include "formats/base/whole_file.h"
#include "formats/profile/gperftools_reader.h"
#include "tests/daemon/local_parser.h"
#include "tests/daemon/profiles/handmade_session.h"
#include "tests/daemon/samples/synthetic_sample.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using test::SyntheticSample;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kKillStacks = 200;
constexpr ProcessKey kProcess{.tgid = 7, .exec_id = 1, .start_ns = 100};

SessionSnapshot snapshot_with(std::uint64_t stacks) {
  SessionSnapshot snapshot = test::handmade_session();
  ProcessSnapshot& process = test::add_process(snapshot, kProcess, "work");
  for (std::uint64_t i = 0; i < stacks; ++i) {
    SyntheticSample sample = SyntheticSample(kProcess).leaf(0x1000 + i).user(0x9000);
    process.samples.stacks.add(sample.view(), StackTable::hash_of(sample.view()), kNoLimit);
  }
  snapshot.samples = stacks;
  snapshot.ledger.taken = stacks;
  return snapshot;
}

Result<StoredResult> write_samples(const std::string& directory, std::uint64_t stacks,
                                   CodeNaming& naming, StoredResult result) {
  const SessionSnapshot snapshot = snapshot_with(stacks);
  return write_result(directory, std::move(result), [&](ResultWriter& writer) {
    return write_session(snapshot, naming, writer);
  });
}

StoredResult result_named(const std::string& id, uid_t uid = 0) {
  StoredResult result;
  result.session.session = id;
  result.session.state = "ended";
  result.session.target.all = true;
  result.session.event = "cpu";
  result.session.started = "2026-01-02T03:04:05Z";
  result.session.uid = uid;
  result.info.result = id;
  result.created = std::chrono::system_clock::now();
  return result;
}

std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

class ResultStoreTest : public testing::Test {
 protected:
  ResultStore open() { return ResultStore::open(directory()).value(); }
  std::string directory() const { return scratch_.path() / "results"; }

  Result<StoredResult> write(StoredResult result, std::uint64_t stacks = 10) {
    if (!naming_) naming_.emplace(std::make_unique<test::LocalParser>());
    return write_samples(directory(), stacks, *naming_, std::move(result));
  }

  test::ScratchDirectory scratch_;
  // Has a thread, so a test that forks has none before.
  std::optional<CodeNaming> naming_;
};

TEST_F(ResultStoreTest, LetsNoOtherUserReadItsDirectory) {
  open();
  write(result_named("0000000a")).value();
  struct stat status {};
  ASSERT_EQ(::stat(directory().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  ASSERT_EQ(::stat((directory() + "/0000000a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(ResultStoreTest, LoadsTheResultsOfAnEarlierDaemon) {
  StoredResult stored;
  {
    ResultStore store = open();
    stored = write(result_named("0000000a", 1000)).value();
    store.adopt(stored);
  }
  const ResultStore store = open();
  const StoredResult* loaded = store.find("0000000a");
  ASSERT_NE(loaded, nullptr);
  EXPECT_EQ(loaded->info, stored.info);
  EXPECT_EQ(loaded->session, stored.session);
  EXPECT_EQ(loaded->keep, stored.keep);
  EXPECT_EQ(store.bytes(), stored.bytes());
}

TEST_F(ResultStoreTest, OpensOnlyTheFilesOfAResult) {
  ResultStore store = open();
  store.adopt(write(result_named("0000000a")).value());
  scratch_.write("results/secret", "no");
  const StoredResult& result = *store.find("0000000a");
  const Result<OpenedFile> file = store.open_file(result, "work.7.prof");
  ASSERT_TRUE(file) << file.error().message;
  const Result<std::string> bytes = read_at(file->fd.get(), file->offset, file->bytes);
  EXPECT_EQ(decode_gperftools(bytes.value()).value().samples(), 10U);
  for (const char* path : {"", ".", "..", "../secret", "/etc/passwd", "meta.json", "session.json",
                           "objects", "objects/../meta.json", "work.7.prof/", "./work.7.prof"}) {
    SCOPED_TRACE(path);
    const Result<OpenedFile> refused = store.open_file(result, path);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  }
}

TEST_F(ResultStoreTest, DoesNotFollowALinkThatReplacedAFile) {
  ResultStore store = open();
  store.adopt(write(result_named("0000000a")).value());
  const std::string file = directory() + "/0000000a";
  ASSERT_EQ(::unlink(file.c_str()), 0);
  ASSERT_EQ(::symlink("/etc/passwd", file.c_str()), 0);
  EXPECT_FALSE(store.open_file(*store.find("0000000a"), "work.7.prof"));
}

TEST_F(ResultStoreTest, RemovesAResultFromTheDisk) {
  ResultStore store = open();
  store.adopt(write(result_named("0000000a")).value());
  EXPECT_TRUE(store.remove("0000000a"));
  EXPECT_EQ(store.find("0000000a"), nullptr);
  EXPECT_THAT(names_in(directory()), IsEmpty());
  EXPECT_EQ(store.remove("0000000a").error().code, ErrorCode::kNotFound);
}

TEST_F(ResultStoreTest, HidesALargeResultUntilItIsRemoved) {
  ResultStore store = open();
  store.set_max_bytes(std::uint64_t{24} << 20);  // 3 MiB for one user
  const auto write_large = [](ResultWriter& writer) -> Result<SessionSummary> {
    if (auto added = writer.add("a.prof", std::string(2 << 20, 'x')); !added) return added.error();
    return SessionSummary();
  };
  StoredResult result = result_named("0000000a", 7);
  result.user = 7;
  store.adopt(write_result(directory(), result, write_large, store.account_of(7)).value());
  EXPECT_TRUE(store.remove("0000000a"));
  EXPECT_EQ(store.find("0000000a"), nullptr);
  std::vector<HiddenResult> hidden = store.take_hidden();
  ASSERT_THAT(hidden, SizeIs(1));
  EXPECT_THAT(names_in(directory()), ElementsAre(hidden[0].name));
  EXPECT_TRUE(hidden[0].name.starts_with('.'));
  EXPECT_FALSE(store.account_of(7).charge(hidden[0].bytes)) << "it is still on the disk";
  hidden[0].account.give_back(hidden[0].bytes);
  EXPECT_TRUE(store.account_of(7).charge(hidden[0].bytes));
  EXPECT_THAT(store.take_hidden(), IsEmpty());
  EXPECT_THAT(open().all(), IsEmpty());
  EXPECT_THAT(names_in(directory()), IsEmpty()) << "the next start removes what is left";
}

// Nobody can remove the directory that has a file system.
TEST_F(ResultStoreTest, RemovesTheOtherHiddenFilesWhereOneCannotBeRemoved) {
  ResultStore store = open();
  const std::string busy = directory() + "/.removed-a";
  std::filesystem::create_directories(busy);
  ASSERT_EQ(::mount("profd-test", busy.c_str(), "tmpfs", 0, nullptr), 0) << "needs root";
  scratch_.write("results/.removed-b", "x");
  std::vector<HiddenResult> hidden;
  for (const char* name : {".removed-a", ".removed-b"}) {
    hidden.push_back({.name = name, .account = store.account_of(7), .bytes = 1000});
    hidden.back().account.charge_anyway(1000);
  }
  store.set_max_bytes(8 * 1500);  // 1,500 for one user
  EXPECT_FALSE(remove_hidden(directory(), hidden));
  ::umount2(busy.c_str(), MNT_DETACH);
  EXPECT_THAT(names_in(directory()), ElementsAre(".removed-a"));
  EXPECT_FALSE(store.account_of(7).charge(501));
  EXPECT_TRUE(store.account_of(7).charge(500));
}

TEST_F(ResultStoreTest, RemovesPartialResults) {
  open();
  write(result_named("0000000a")).value();
  std::filesystem::create_directories(directory() + "/.partial-abc/objects");
  scratch_.write("results/.partial-abc/objects/x.so", "half");
  std::filesystem::create_directories(directory() + "/.removed-0000000b");
  scratch_.write("precious", "precious");
  ASSERT_EQ(::symlink((scratch_.path() / "precious").c_str(),
                      (directory() + "/.partial-abc/link").c_str()),
            0);
  open();
  EXPECT_THAT(names_in(directory()), ElementsAre("0000000a"));
  EXPECT_EQ(test::read_file(scratch_.path() / "precious"), "precious");
}

TEST_F(ResultStoreTest, KeepsAFileThatItCannotRead) {
  for (const char* index : {"", "{", "[]", "{}", "{\"dump\":3}"}) {
    SCOPED_TRACE(index);
    open();
    ResultWriter writer = ResultWriter::create(directory()).value();
    ASSERT_TRUE(writer.add("a.prof", "bytes"));
    ASSERT_TRUE(writer.commit("0000000a", index));
    EXPECT_EQ(open().find("0000000a"), nullptr);
    EXPECT_THAT(names_in(directory()), ElementsAre("0000000a"));
    std::filesystem::remove_all(directory());
  }
}

TEST_F(ResultStoreTest, RefusesAnIndexWithAFileOutsideOfTheResult) {
  const std::pair<const char*, bool> table[] = {{"0,\"bytes\":5", true},
                                                {"5,\"bytes\":0", true},
                                                {"0,\"bytes\":6", false},
                                                {"6,\"bytes\":0", false},
                                                {"1,\"bytes\":5", false},
                                                {"-1,\"bytes\":1", false},
                                                {"18446744073709551615,\"bytes\":2", false}};
  for (const auto& [place, is_inside] : table) {
    SCOPED_TRACE(place);
    open();
    write(result_named("0000000a")).value();
    const UniqueFd file(::open((directory() + "/0000000a").c_str(), O_RDONLY | O_CLOEXEC));
    std::string index = read_result_index(file.get(), 1 << 20).value().text;
    index.erase(index.find(",\"named_profile\""));
    index.append("}");
    const std::size_t begin = index.find("\"files\":[") + 9;
    index.replace(begin, index.find(']', begin) - begin,
                  "{\"path\":\"a.prof\",\"offset\":" + std::string(place) + "}");
    std::filesystem::remove_all(directory() + "/0000000a");
    ResultWriter writer = ResultWriter::create(directory()).value();
    ASSERT_TRUE(writer.add("a.prof", "bytes"));
    ASSERT_TRUE(writer.commit("0000000a", index));
    EXPECT_EQ(open().find("0000000a") != nullptr, is_inside);
    std::filesystem::remove_all(directory());
  }
}

TEST_F(ResultStoreTest, ReadsOnlyAFileOfTheSizeItWrites) {
  for (const bool is_pipe : {true, false}) {
    SCOPED_TRACE(is_pipe ? "a pipe" : "vast");
    open();
    write(result_named("0000000a")).value();
    const std::string path = directory() + "/0000000a";
    if (is_pipe) {
      ASSERT_EQ(::unlink(path.c_str()), 0);
      ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    } else {
      ASSERT_EQ(::truncate(path.c_str(), off_t{1} << 40), 0);
    }
    EXPECT_EQ(open().find("0000000a"), nullptr);
    std::filesystem::remove_all(directory());
  }
}

TEST_F(ResultStoreTest, RemovesResultsOfTheFirstVersion) {
  open();
  scratch_.write("results/kept", "no result");
  std::filesystem::create_directories(directory() + "/0000000a/objects");
  std::filesystem::create_directories(directory() + "/other");
  scratch_.write("results/0000000a/meta.json", "{}");
  scratch_.write("results/0000000a/objects/x.so", "x");
  EXPECT_THAT(open().all(), IsEmpty());
  EXPECT_THAT(names_in(directory()), ElementsAre("kept", "other"));
}

TEST_F(ResultStoreTest, ChargesItsResultsToTheirUsers) {
  ResultStore store = open();
  store.set_max_bytes(80'000);  // 10,000 for one user
  const auto store_one = [&](const char* id, uid_t user) -> Result<void> {
    StoredResult result = result_named(id, user);
    result.user = user;
    const auto write_one = [](ResultWriter& writer) -> Result<SessionSummary> {
      if (auto added = writer.add("a", std::string(8'000, 'x')); !added) return added.error();
      return SessionSummary();
    };
    auto stored = write_result(directory(), std::move(result), write_one, store.account_of(user));
    if (!stored) return stored.error();
    store.adopt(std::move(*stored));
    return {};
  };
  EXPECT_TRUE(store_one("0000000a", 7));
  EXPECT_EQ(store_one("0000000b", 7).error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(store.refused(), 1U);
  EXPECT_TRUE(store_one("0000000c", 8));
  EXPECT_TRUE(store.remove("0000000a"));
  EXPECT_TRUE(store_one("0000000b", 7));
  ResultStore again = open();
  again.set_max_bytes(80'000);
  EXPECT_FALSE(again.account_of(7).charge(8'000));
  EXPECT_TRUE(again.account_of(9).charge(8'000));
}

TEST(ResultQuota, ARefusalNamesTheLimitThatIsReached) {
  ResultQuota quota;
  quota.set_max_bytes(80'000);  // 40,000 for users, 10,000 for one of them
  ResultAccount own = quota.account_of(1);
  ASSERT_TRUE(own.charge(10'000));
  EXPECT_FALSE(own.charge(1));
  EXPECT_THAT(own.refusal().message, HasSubstr("limit of your results"));
  EXPECT_THAT(own.refusal().hint, HasSubstr("profctl stop ID"));
  for (const uid_t user : {2U, 3U, 4U}) ASSERT_TRUE(quota.account_of(user).charge(10'000));
  ResultAccount late = quota.account_of(5);
  EXPECT_FALSE(late.charge(1));
  EXPECT_THAT(late.refusal().message, HasSubstr("limit of all users' results"));
  EXPECT_THAT(late.refusal().hint, Not(HasSubstr("profctl stop")));
  ResultAccount of_root = quota.account_of(std::nullopt);
  EXPECT_FALSE(of_root.charge(50'000));
  EXPECT_THAT(of_root.refusal().hint, HasSubstr("results_max_bytes"));
}

TEST_F(ResultStoreTest, LoadsAResultOnlyUnderItsOwnName) {
  open();
  write(result_named("0000000a")).value();
  StoredResult dump = result_named("0000000b-dump-1");
  dump.session.session = "0000000b";
  dump.is_dump = true;
  write(dump).value();
  for (const char* name : {"0000000c", "0000000a-dump-1", "not an id"}) {
    std::filesystem::copy(directory() + "/0000000a", directory() + "/" + name);
  }
  std::filesystem::copy(directory() + "/0000000b-dump-1", directory() + "/0000000b");
  const ResultStore store = open();
  EXPECT_THAT(store.all(), SizeIs(2));
  EXPECT_NE(store.find("0000000a"), nullptr);
  EXPECT_NE(store.find("0000000b-dump-1"), nullptr);
}

TEST_F(ResultStoreTest, CountsEveryByteOnTheDisk) {
  ResultStore store = open();
  store.adopt(write(result_named("0000000a", 1000)).value());
  std::uint64_t on_disk = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory())) {
    if (entry.is_regular_file()) on_disk += entry.file_size();
  }
  EXPECT_EQ(store.bytes(), on_disk);
  EXPECT_EQ(open().bytes(), on_disk);
}

TEST_F(ResultStoreTest, ReportsAResultThatIsMissingOnTheDisk) {
  ResultStore store = open();
  store.adopt(write(result_named("0000000a")).value());
  const StoredResult& result = *store.find("0000000a");
  EXPECT_TRUE(store.check(result));
  std::filesystem::remove_all(directory());
  EXPECT_EQ(store.check(result).error().code, ErrorCode::kIo);
  EXPECT_EQ(store.open_file(result, "work.7.prof").error().code, ErrorCode::kIo);
  EXPECT_EQ(write(result_named("0000000b")).error().code, ErrorCode::kIo);
  std::filesystem::create_directory(directory());
  store.adopt(write(result_named("0000000b")).value());
  EXPECT_TRUE(store.open_file(*store.find("0000000b"), "work.7.prof"));
}

TEST_F(ResultStoreTest, NeverReplacesAResult) {
  open();
  const StoredResult first = write(result_named("0000000a"), 10).value();
  const Result<StoredResult> second = write(result_named("0000000a"), 20);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kBusy);
  EXPECT_THAT(names_in(directory()), ElementsAre("0000000a"));
  EXPECT_EQ(open().find("0000000a")->info, first.info);
}

// The clock was set forward while the result was written.
TEST_F(ResultStoreTest, KeepsANewResultForItsTimeWhateverTheClockSays) {
  ResultStore store = open();
  StoredResult result = result_named("0000000a");
  result.keep = std::chrono::seconds(900);
  result.created -= std::chrono::hours(1);
  store.adopt(write(result).value());
  store.expire();
  EXPECT_NE(store.find("0000000a"), nullptr);
}

TEST_F(ResultStoreTest, RemovesResultsThatWereKeptLongEnough) {
  open();
  StoredResult late = result_named("0000000a");
  late.keep = std::chrono::seconds(900);
  late.created -= std::chrono::seconds(901);
  StoredResult fresh = result_named("0000000b");
  fresh.keep = std::chrono::seconds(900);
  StoredResult kept = result_named("0000000c");
  kept.created -= std::chrono::hours(1000);
  for (const StoredResult& result : {late, fresh, kept}) write(result).value();
  ResultStore store = open();
  store.expire();
  EXPECT_EQ(store.find("0000000a"), nullptr);
  EXPECT_NE(store.find("0000000b"), nullptr);
  EXPECT_NE(store.find("0000000c"), nullptr);
}

// A file system of 64 KiB, gone with the test.
class FullDiskTest : public ResultStoreTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(directory());
    ASSERT_EQ(::mount("profd-test", directory().c_str(), "tmpfs", 0, "size=64k"), 0)
        << "needs root";
  }
  void TearDown() override { ::umount2(directory().c_str(), MNT_DETACH); }
};

TEST_F(FullDiskTest, LeavesNoPartialResult) {
  ResultStore store = open();
  store.adopt(write(result_named("0000000a"), 10).value());
  const Result<StoredResult> too_large = write(result_named("0000000b"), 10'000);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, ErrorCode::kIo);
  EXPECT_THAT(names_in(directory()), ElementsAre("0000000a"));
  EXPECT_TRUE(store.open_file(*store.find("0000000a"), "work.7.prof"));
}

TEST_F(FullDiskTest, UsersLeaveRoomForOthers) {
  ResultStore store = open();
  const auto write_one = [&](const std::string& id, std::optional<uid_t> user) {
    StoredResult result = result_named(id);
    result.user = user;
    const auto write = [](ResultWriter& writer) -> Result<SessionSummary> {
      if (auto added = writer.add("a", std::string(7'000, 'x')); !added) return added.error();
      return SessionSummary();
    };
    return write_result(directory(), result, write, store.account_of(user));
  };
  for (const uid_t user : {1U, 2U, 3U, 4U}) {
    EXPECT_TRUE(write_one("0000000" + std::to_string(user), user)) << user;
  }
  for (const uid_t user : {1U, 5U}) {
    const auto refused = write_one("0000000a", user);
    ASSERT_FALSE(refused) << user;
    EXPECT_EQ(refused.error().code, ErrorCode::kTooLarge);
    EXPECT_THAT(refused.error().message, HasSubstr("almost full"));
  }
  EXPECT_TRUE(write_one("0000000b", std::nullopt));
}

TEST_F(FullDiskTest, ChargesAFileThatCannotBeRemoved) {
  ResultStore store = open();
  store.set_max_bytes(80'000);  // 10,000 for one user
  StoredResult result = result_named("0000000a", 7);
  result.user = 7;
  const auto write_one = [](ResultWriter& writer) -> Result<SessionSummary> {
    if (auto added = writer.add("a", std::string(7'000, 'x')); !added) return added.error();
    return SessionSummary();
  };
  store.adopt(write_result(directory(), result, write_one, store.account_of(7)).value());
  const auto remount = [this](unsigned long flags) {
    return ::mount("profd-test", directory().c_str(), "tmpfs", MS_REMOUNT | flags, "size=64k");
  };
  ASSERT_EQ(remount(MS_RDONLY), 0);
  EXPECT_FALSE(store.remove("0000000a"));
  EXPECT_NE(store.find("0000000a"), nullptr);
  EXPECT_FALSE(store.account_of(7).charge(8'000));
  ASSERT_EQ(remount(0), 0);
  EXPECT_TRUE(store.remove("0000000a"));
  EXPECT_TRUE(store.account_of(7).charge(8'000));
}

// Stores results until it is killed, and writes a byte to `done` for each.
[[noreturn]] void store_until_killed(const std::string& directory, int round, int done) {
  CodeNaming naming(std::make_unique<test::LocalParser>());
  for (int i = 0;; ++i) {
    const std::string id = std::to_string(round) + "-" + std::to_string(i);
    const bool stored{write_samples(directory, kKillStacks, naming, result_named(id))};
    if (!stored || ::write(done, "x", 1) != 1) ::_exit(1);
  }
}

// All results that a start after a kill finds are complete, and nothing else is left.
TEST_F(ResultStoreTest, HasOnlyCompleteResultsAfterAKill) {
  open();
  for (int round = 0; round < 20; ++round) {
    int done[2];
    ASSERT_EQ(::pipe(done), 0);
    const pid_t child = ::fork();
    if (child == 0) store_until_killed(directory(), round, done[1]);
    ::close(done[1]);
    char one = 0;
    ASSERT_EQ(::read(done[0], &one, 1), 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * round));  // into the next one
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(done[0]);
    const ResultStore store = open();
    EXPECT_GE(store.all().size(), 1U);
    EXPECT_THAT(names_in(directory()), SizeIs(store.all().size()));
    for (const StoredResult* result : store.all()) {
      const OpenedFile file = store.open_file(*result, "work.7.prof").value();
      const std::string bytes = read_at(file.fd.get(), file.offset, file.bytes).value();
      EXPECT_EQ(decode_gperftools(bytes).value().samples(), kKillStacks);
    }
    std::filesystem::remove_all(directory());
    std::filesystem::create_directories(directory());
  }
}

TEST_F(ResultStoreTest, AClockThatIsSetBackKeepsNoResultLonger) {
  open();
  StoredResult future = result_named("0000000a");
  future.keep = std::chrono::seconds(1);
  future.created += std::chrono::hours(1);
  write(future).value();
  ResultStore store = open();
  EXPECT_NE(store.find("0000000a"), nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  store.expire();
  EXPECT_EQ(store.find("0000000a"), nullptr);
}

}  // namespace
}  // namespace profd
