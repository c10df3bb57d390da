// Which names of a window come back into the cache.

#include "daemon/history/read_back.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "daemon/history/writer.h"
#include "tests/daemon/profiles/session_writer_fixture.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kAddress = 0x1234;
const std::string kId = "00112233445566778899aabbccddeeff00112233";
const std::string kIdentity = kId + "-0badcafe";

class ReadBackTest : public testing::Test {
 protected:
  // One location with a name in a file with the build id.
  void add(const std::string& build_id, const std::string& function, std::uint32_t line) {
    const std::uint32_t mapping = profile_.add_mapping(
        {.file = profile_.add_text("/bin/x"), .build_id = profile_.add_text(build_id)});
    const PprofLine one{
        .function = profile_.add_function({.name = profile_.add_text(function),
                                           .system_name = profile_.add_text("_Z" + function),
                                           .file = profile_.add_text("x.cc"),
                                           .start_line = 3}),
        .line = line};
    const std::uint32_t location =
        profile_.add_location({.address = kAddress, .mapping = mapping}, {&one, 1});
    profile_.add_sample(
        {.labels = profile_.add_labels({}), .stack = profile_.add_stack({&location, 1})},
        std::vector<std::int64_t>{1});
  }
  std::string write(const std::vector<std::string>& identities, int minute = 0) {
    WindowRecord record{
        .start = kStart + minute * 1min, .end = kStart + (minute + 1) * 1min, .profiles = {}};
    for (const std::string& one : identities) record.named_files.push_back(named_file_text(one));
    SessionSummary summary;
    summary.session = window_name(record.start);
    const std::string bytes = encode_window(std::move(profile_), summary, record);
    EXPECT_TRUE(write_window(directory(), window_name(record.start), bytes));
    profile_ = PprofProfile(kTypes);
    return window_name(record.start);
  }
  [[nodiscard]] std::string directory() const { return scratch_.path().string(); }
  std::string name_of(const std::string& identity) {
    const NameTable& names = cache_.names_of(identity);
    const NameTable::Entry* const entry = names.find(kAddress);
    if (entry == nullptr) return "";
    const CodeFrame frame = names.frame(names.lines(*entry).front());
    return frame.name + " " + frame.system_name + " " + frame.file + ":" +
           std::to_string(frame.line) + "," + std::to_string(frame.start_line) +
           (entry->may_have_lines ? " open" : "");
  }

  static constexpr std::chrono::system_clock::time_point kStart{1'767'362'700s};
  static inline const std::vector<PprofValueType> kTypes{{"samples", "count"}};
  test::ScratchDirectory scratch_;
  PprofProfile profile_{kTypes};
  NameCache cache_;
};

TEST_F(ReadBackTest, ANameComesBackAsItWasWritten) {
  add(kId, "hot", 7);
  write({kIdentity});
  EXPECT_EQ(read_names_back(directory(), cache_), 1U);
  EXPECT_EQ(name_of(kIdentity), "hot _Zhot x.cc:7,3");
}

TEST_F(ReadBackTest, AnAddressWithoutALineIsAskedForOneAgain) {
  add(kId, "hot", 0);
  write({kIdentity});
  EXPECT_EQ(read_names_back(directory(), cache_), 1U);
  EXPECT_EQ(name_of(kIdentity), "hot _Zhot x.cc:0,3 open");
}

TEST_F(ReadBackTest, AUsersFileNamesNoFileOfAnother) {
  add(kId, "forged", 7);
  write({kIdentity + "-u1000"});
  EXPECT_EQ(read_names_back(directory(), cache_), 1U);
  EXPECT_EQ(name_of(kIdentity), "");
  EXPECT_EQ(name_of(kIdentity + "-u1000"), "forged _Zforged x.cc:7,3");
}

TEST_F(ReadBackTest, ARecordHasTheFilesOfTheProfilesMappingsAlone) {
  add(kId, "hot", 7);
  const std::string over_share = std::string(40, 'f') + "-1";
  EXPECT_THAT(named_files_of(profile_, {kId + "-1", kId + "-2", kId + "-3", over_share}),
              testing::ElementsAre("0011223344556677-1", "0011223344556677-2"));
}

TEST_F(ReadBackTest, OfTwoFilesWithOneBuildIdNeitherComesBack) {
  add(kId, "either", 7);
  write({kIdentity, kIdentity + "-u1000"});
  EXPECT_EQ(read_names_back(directory(), cache_), 0U);
}

// As a user can make them: two files with the first digits of the build id of somebody else's
// file, which come before it, so that the record has no room for it.
TEST_F(ReadBackTest, FilesWhoseBuildIdsBeginAlikeDoNotGetTheNamesOfAnother) {
  const std::string id = kId.substr(0, 16) + std::string(24, 'f');
  add(id, "secret", 7);
  const std::string end = "-0badcafe-u1000";
  std::vector<std::string> identities;
  for (const char digit : {'0', '1'}) {
    identities.push_back(kId.substr(0, 16) + std::string(24, digit) + end);
  }
  identities.push_back(id + "-12345678");
  const std::vector<std::string> files = named_files_of(profile_, identities);
  EXPECT_THAT(files, testing::ElementsAre(testing::EndsWith(end), testing::EndsWith(end)));
  write(files);
  EXPECT_EQ(read_names_back(directory(), cache_), 0U);
  EXPECT_EQ(name_of(id + end), "");
}

TEST_F(ReadBackTest, AWindowOfTheFutureIsNoneOfTheNewest) {
  constexpr int kMinutesOfTwentyYears = 20 * 366 * 24 * 60;
  for (const int ahead : {0, 1}) {
    add("aa" + kId, "future", 7);
    write({"aa" + kIdentity}, kMinutesOfTwentyYears + ahead);
  }
  add(kId, "hot", 7);
  write({kIdentity});
  EXPECT_EQ(read_names_back(directory(), cache_), 1U);
  EXPECT_EQ(name_of(kIdentity), "hot _Zhot x.cc:7,3");
}

TEST_F(ReadBackTest, AFileThatTheRecordDoesNotHaveIsLeftOut) {
  add("ff" + kId, "hot", 7);
  add("", "anonymous", 7);
  write({kIdentity});
  EXPECT_EQ(read_names_back(directory(), cache_), 0U);
}

TEST_F(ReadBackTest, AnAddressWithoutANameIsLeftOut) {
  add(kId, "[libx.so]", 0);
  write({kIdentity});
  EXPECT_EQ(read_names_back(directory(), cache_), 0U);
}

TEST_F(ReadBackTest, TheTwoNewestWindowsAreReadAndTheNewestCounts) {
  add("aa" + kId, "oldest", 7);
  write({"aa" + kIdentity}, 0);
  add(kId, "older", 7);
  write({kIdentity}, 1);
  add(kId, "newest", 7);
  write({kIdentity}, 2);
  EXPECT_EQ(read_names_back(directory(), cache_), 1U);
  EXPECT_EQ(name_of(kIdentity), "newest _Znewest x.cc:7,3");
  EXPECT_EQ(name_of("aa" + kIdentity), "");
}

TEST_F(ReadBackTest, AMalformedWindowIsLeftOut) {
  add(kId, "hot", 7);
  write({kIdentity}, 0);
  std::ofstream(directory() + "/" + window_name(kStart + 1min) + ".pb.gz") << "no window";
  std::ofstream(directory() + "/.partial-x") << "no window";
  EXPECT_EQ(read_names_back(directory(), cache_), 1U);
  EXPECT_EQ(read_names_back(directory() + "/missing", cache_), 0U);
}

// As the daemon does it: windows that a writer wrote, and the writer of the next daemon.
class RestartTest : public test::SessionWriterTest {
 protected:
  [[nodiscard]] std::string windows() const { return scratch_.path() / "windows"; }

  // What `writer` counts once it has written a window that starts at this minute.
  NamingStats write_window(WindowWriter& writer, int minute) {
    snapshot_.started = std::chrono::system_clock::time_point(1'767'362'700s + minute * 1min);
    snapshot_.session = window_name(snapshot_.started);
    const Result<WindowInfo> written = writer.write(snapshot_);
    EXPECT_TRUE(written) << written.error().message;
    return writer.naming_stats();
  }
  [[nodiscard]] std::string traces(int minute) const {
    const std::string name = window_name(snapshot_.started + (minute - last_minute_) * 1min);
    return test::output_of(std::string("HOME=/nonexistent PPROF_BINARY_PATH=/nonexistent ") +
                           GO_PPROF_BINARY + " -symbolize=none -sample_index=samples -traces " +
                           windows() + "/" + name + ".pb.gz | sed -n '/^-----/,$p'");
  }

  int last_minute_ = 1;
};

TEST_F(RestartTest, TheNextDaemonNamesTheSameAddressesWithoutARequest) {
  std::filesystem::create_directories(windows());
  ProcessSnapshot& process = add_process("chain");
  const test::ChainProgram program = add_program(process, "libchain.so");
  add_samples(process, chain(program), 3);
  WindowWriter first(windows(), Parser::start().value());
  const NamingStats before = write_window(first, 0);
  EXPECT_EQ(before.looked_up, 4U);
  EXPECT_EQ(before.read_back, 0U);
  WindowWriter second(windows(), Parser::start().value());
  const NamingStats after = write_window(second, 1);
  EXPECT_EQ(after.looked_up, 0U);
  EXPECT_EQ(after.read_back, 4U);
  EXPECT_EQ(after.lines.answered, 0U);
  EXPECT_THAT(traces(0), testing::HasSubstr("leaf"));
  EXPECT_EQ(traces(1), traces(0));
}

}  // namespace
}  // namespace profd
