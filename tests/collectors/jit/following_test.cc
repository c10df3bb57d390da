// A runtime's JIT source names its code, in all places and with all names that it may have, and in
// the runtime's children.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/jit/follower.h"
#include "collectors/jit/processes.h"
#include "collectors/parser/parser.h"
#include "tests/collectors/jit/runtime.h"

namespace profd::test {
namespace {

// How often the follower's thread has gone to sleep.
std::uint64_t sleeps_of_follower() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name != "jit-follower") continue;
    std::ifstream status(task.path() / "status");
    std::uint64_t count = 0;
    for (std::string word; status >> word;) {
      if (word == "voluntary_ctxt_switches:") status >> count;
    }
    return count;
  }
  return 0;
}

class JitFollowingTest : public testing::Test {
 protected:
  void SetUp() override {
    auto started = JitProcesses::start({.directories = {directory_.path()}});
    ASSERT_TRUE(started) << started.error().message;
    processes_ = std::move(*started);
  }

  // Reports what comes with the first sample in JIT code.
  void sample(const ProcessKey& process) { processes_->on_mapping(jit_code_of(process)); }

  [[nodiscard]] bool comes_to_know(const ProcessKey& process, const std::string& name,
                                   std::uint64_t address = 0x10000,
                                   std::uint64_t time_ns = UINT64_MAX - 1) {
    return wait_for(*processes_,
                    [&] { return name_at(*processes_, process, address, time_ns) == name; });
  }

  // Waits until the present content of the files has been read.
  [[nodiscard]] bool read_to_end(const ProcessKey& process) {
    const std::uint64_t ticket = processes_->read_to_end({process});
    return wait_for(*processes_, [&] { return processes_->has_read_to_end(ticket); });
  }

  PrivateDirectory directory_;
  std::unique_ptr<JitProcesses> processes_;
};

TEST_F(JitFollowingTest, ARuntimeIsRecognisedByALibraryThatNoSampleHit) {
  const std::string library = directory_ / "libjvm.so";
  write_file(library, std::string(4096, '\0'));
  const Runtime runtime([&] { return map_marker(library.c_str()); });
  ASSERT_TRUE(runtime.is_ready());
  sample(runtime.key());
  ASSERT_TRUE(read_to_end(runtime.key()));
  const auto info = processes_->info(runtime.key());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->runtime, "Java");
}

TEST_F(JitFollowingTest, AFileWithAnyNameIsFoundByItsMarker) {
  const std::string path = directory_ / "no-name-that-says-anything";
  write_file(path, std::string(40, '\0'));
  const Runtime runtime([&] { return map_marker(path.c_str()); });
  ASSERT_TRUE(runtime.is_ready());
  write_file(path, dump_of(runtime.pid(), {.name = "made"}));
  sample(runtime.key());
  EXPECT_TRUE(comes_to_know(runtime.key(), "made"));
}

TEST_F(JitFollowingTest, AnUnlinkedFileIsFoundByItsMarker) {
  const std::string path = directory_ / "unlinked";
  write_file(path, std::string(40, '\0'));
  const UniqueFd writer(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const Runtime runtime([&] { return map_marker(path.c_str()) && ::unlink(path.c_str()) == 0; });
  ASSERT_TRUE(runtime.is_ready());
  const std::string dump = dump_of(runtime.pid(), {.name = "made"});
  ASSERT_EQ(::write(writer.get(), dump.data(), dump.size()), static_cast<ssize_t>(dump.size()));
  sample(runtime.key());
  EXPECT_TRUE(comes_to_know(runtime.key(), "made"));
}

TEST_F(JitFollowingTest, ADumpIsFoundByNameInItsProcessesWorkingDirectory) {
  const Runtime runtime([&] { return ::chdir(directory_.path().c_str()) == 0; });
  ASSERT_TRUE(runtime.is_ready());
  write_file(directory_ / ("jit-" + std::to_string(runtime.pid()) + ".dump"),
             dump_of(runtime.pid(), {.name = "made"}));
  sample(runtime.key());
  EXPECT_TRUE(comes_to_know(runtime.key(), "made"));
}

TEST_F(JitFollowingTest, AMapIsFoundInTheTmpOfItsProcessesRoot) {
  std::filesystem::create_directory(directory_ / "tmp");
  const Runtime runtime(
      [&] { return ::chroot(directory_.path().c_str()) == 0 && ::chdir("/") == 0; });
  ASSERT_TRUE(runtime.is_ready());
  write_file(directory_ / ("tmp/perf-" + std::to_string(runtime.pid()) + ".map"),
             "0x10000 40 int T.fib(int)\n");
  sample(runtime.key());
  EXPECT_TRUE(comes_to_know(runtime.key(), "int T.fib(int)"));
  EXPECT_EQ(processes_->info(runtime.key())->file,
            "/tmp/perf-" + std::to_string(runtime.pid()) + ".map");
}

TEST_F(JitFollowingTest, ThePartOfAFileThatIsWrittenLaterIsRead) {
  const Runtime runtime([&] { return ::chdir(directory_.path().c_str()) == 0; });
  const std::string path = directory_ / ("jit-" + std::to_string(runtime.pid()) + ".dump");
  write_file(path, dump_of(runtime.pid(), {.name = "first"}));
  sample(runtime.key());
  ASSERT_TRUE(comes_to_know(runtime.key(), "first"));
  const std::string second = load_of(runtime.pid(), {.name = "second", .time_ns = 2});
  append_file(path, second.substr(0, 30));
  ASSERT_TRUE(read_to_end(runtime.key()));
  EXPECT_EQ(name_at(*processes_, runtime.key(), 0x10000), "first");
  append_file(path, second.substr(30));
  ASSERT_TRUE(comes_to_know(runtime.key(), "second"));
  EXPECT_EQ(name_at(*processes_, runtime.key(), 0x10000, 1), "first");
}

TEST_F(JitFollowingTest, LinesThatComeLongBeforeTheirCodeBelongToIt) {
  const Runtime runtime([&] { return ::chdir(directory_.path().c_str()) == 0; });
  const std::string path = directory_ / ("jit-" + std::to_string(runtime.pid()) + ".dump");
  JitDumpWriter writer;
  const JitDumpLine lines[] = {{.address = 0x20000, .line = 7, .discriminator = 0, .file = "f"}};
  writer.debug_info(1, 0x20000, lines);
  write_file(path, dump_of(runtime.pid(), {.name = "first"}) + writer.take());
  sample(runtime.key());
  ASSERT_TRUE(comes_to_know(runtime.key(), "first"));
  ASSERT_TRUE(read_to_end(runtime.key()));
  append_file(path, load_of(runtime.pid(), {.name = "with lines", .address = 0x20000}));
  ASSERT_TRUE(comes_to_know(runtime.key(), "with lines", 0x20000));
  EXPECT_NE(processes_->at(runtime.key(), 0x20000, 1)->code.debug_info.bytes, 0U);
  EXPECT_EQ(processes_->at(runtime.key(), 0x10000, 1)->code.debug_info.bytes, 0U);
}

TEST_F(JitFollowingTest, AFileOfAnotherFormatIsReadAgainOnceItChanged) {
  const std::string path = directory_ / "of whatever name";
  write_file(path, std::string(100, 'x'));
  const Runtime runtime([&] { return map_marker(path.c_str()); });
  ASSERT_TRUE(runtime.is_ready());
  sample(runtime.key());
  ASSERT_TRUE(read_to_end(runtime.key()));
  write_file(path, dump_of(runtime.pid(), {.name = "made"}));
  ASSERT_TRUE(read_to_end(runtime.key()));
  EXPECT_TRUE(comes_to_know(runtime.key(), "made"));
}

TEST_F(JitFollowingTest, AFileThatAppearsAfterTheFirstSampleIsFound) {
  const Runtime runtime([&] { return ::chdir(directory_.path().c_str()) == 0; });
  sample(runtime.key());
  ASSERT_TRUE(read_to_end(runtime.key()));
  write_file(directory_ / ("jit-" + std::to_string(runtime.pid()) + ".dump"),
             dump_of(runtime.pid(), {.name = "made"}));
  EXPECT_TRUE(comes_to_know(runtime.key(), "made"));
}

TEST_F(JitFollowingTest, AMapThatIsRewrittenIsReadAgain) {
  const Runtime runtime;
  const std::string path = "/tmp/perf-" + std::to_string(runtime.pid()) + ".map";
  write_file(path, "10000 40 first\n20000 40 other\n");
  sample(runtime.key());
  const bool knew_first = comes_to_know(runtime.key(), "first");
  write_file(path, "10000 40 second, which is longer\n20000 40 other\n");
  const bool knows_second = comes_to_know(runtime.key(), "second, which is longer");
  std::filesystem::remove(path);
  EXPECT_TRUE(knew_first);
  EXPECT_TRUE(knows_second);
}

// A runtime that writes a jitdump and a perf map.
class JitTwoFilesTest : public JitFollowingTest {
 protected:
  void TearDown() override { std::filesystem::remove(map_); }

  void write_both(std::string_view map, const std::vector<Function>& functions) {
    write_file(map_, map);
    std::string dump = dump_header(runtime_.pid());
    for (const Function& function : functions) dump += load_of(runtime_.pid(), function);
    write_file(directory_ / ("jit-" + std::to_string(runtime_.pid()) + ".dump"), dump);
    sample(runtime_.key());
    ASSERT_TRUE(read_to_end(runtime_.key()));
    // The watch of the test's directory holds the dump, and the follower reads both files.
    ASSERT_TRUE(wait_for(*processes_, [&] { return processes_->stats().files == 3; }));
  }
  [[nodiscard]] std::string named(std::uint64_t address, std::uint64_t time_ns = UINT64_MAX - 1) {
    return name_at(*processes_, runtime_.key(), address, time_ns);
  }

  const Runtime runtime_{[&] { return ::chdir(directory_.path().c_str()) == 0; }};
  const std::string map_ = "/tmp/perf-" + std::to_string(runtime_.pid()) + ".map";
};

TEST_F(JitTwoFilesTest, TheDumpNamesItsCodeAndTheMapTheRest) {
  write_both("10000 40 of the map\n20000 40 of the map alone\n", {{.name = "of the dump"}});
  EXPECT_EQ(named(0x10000), "of the dump");
  EXPECT_EQ(named(0x20000), "of the map alone");
  const auto info = processes_->info(runtime_.key());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->kind, JitFileKind::kJitDump);
}

TEST_F(JitTwoFilesTest, AFunctionOfBothIsTheDumpsSinceThatHasTheCodeBytes) {
  write_both("10000 40 both\n", {{.name = "both"}});
  const auto found = processes_->at(runtime_.key(), 0x10000, UINT64_MAX - 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->code.code.bytes, 64U);
  EXPECT_TRUE(processes_->source_file_of(found->code));
}

TEST_F(JitTwoFilesTest, AfterTheLastRecordTheMapReplacesAFunctionOfTheDump) {
  constexpr std::uint64_t kLastRecord = 5000;
  write_both("10000 40 old\n30000 40 last\n10020 100 new\n",
             {{.name = "old", .time_ns = 1000},
              {.name = "last", .address = 0x30000, .time_ns = kLastRecord}});
  EXPECT_EQ(named(0x10030), "new");
  EXPECT_EQ(named(0x10010), "old");
  EXPECT_EQ(named(0x10030, kLastRecord - 1), "old");
  EXPECT_EQ(named(0x10030, kLastRecord + 1), "old") << "before the map was read";
}

TEST_F(JitTwoFilesTest, AMapWithOtherNamesReplacesNothing) {
  write_both("10000 40 int of.the.map()\n", {{.name = "Lof/the/dump;()I"}});
  EXPECT_EQ(named(0x10000), "Lof/the/dump;()I");
}

TEST_F(JitTwoFilesTest, AnOlderFunctionOfTheMapReplacesNothing) {
  write_both("10000 80 older\n10000 40 old\n", {{.name = "old"}});
  EXPECT_EQ(named(0x10000), "old");
}

TEST_F(JitFollowingTest, AProcessThatHasEndedKeepsItsNamesUntilNobodyNeedsThem) {
  Runtime runtime([&] { return ::chdir(directory_.path().c_str()) == 0; });
  const ProcessKey key = runtime.key();
  const std::string path = directory_ / ("jit-" + std::to_string(runtime.pid()) + ".dump");
  write_file(path, dump_of(runtime.pid(), {.name = "made"}));
  sample(key);
  ASSERT_TRUE(comes_to_know(key, "made"));
  std::filesystem::remove(path);
  runtime.end();
  processes_->forget_unless([](const ProcessKey&) { return true; });
  EXPECT_EQ(name_at(*processes_, key, 0x10000), "made");
  processes_->forget_unless([](const ProcessKey&) { return false; });
  EXPECT_FALSE(processes_->info(key));
  EXPECT_EQ(processes_->stats().processes, 0U);
}

TEST_F(JitFollowingTest, AProcessThatEndsBeforeItsScanIsNamedByTheFileThatItLeft) {
  Runtime runtime;
  const ProcessKey key = runtime.key();
  const std::string dump = dump_of(runtime.pid(), {.name = "made"});
  write_file(directory_ / ("jit-" + std::to_string(runtime.pid()) + ".dump"), dump);
  ASSERT_TRUE(wait_for(*processes_, [&] { return processes_->stats().files != 0; }));
  std::filesystem::remove(directory_ / ("jit-" + std::to_string(runtime.pid()) + ".dump"));
  runtime.end();
  sample(key);
  EXPECT_TRUE(comes_to_know(key, "made"));
}

TEST_F(JitFollowingTest, AForkedChildHasWhatItsParentHadAtTheFork) {
  const std::string path = directory_ / "dump";
  write_file(path, std::string(40, '\0'));
  const ForkedRuntime family([&] { return map_marker(path.c_str()); });
  const Runtime& parent = family.parent();
  ASSERT_TRUE(family.is_ready());
  const ProcessKey child_key = key_of(family.child());
  const std::uint64_t before = 1;
  const std::uint64_t after = monotonic_ns() + 1'000'000;
  write_file(path,
             dump_of(parent.pid(), {.name = "before", .address = 0x10000, .time_ns = before}) +
                 load_of(parent.pid(), {.name = "after", .address = 0x10000, .time_ns = after}) +
                 load_of(family.child(), {.name = "childs", .address = 0x20000, .time_ns = after}));
  sample(child_key);
  sample(parent.key());
  EXPECT_TRUE(comes_to_know(child_key, "childs", 0x20000));
  EXPECT_TRUE(comes_to_know(parent.key(), "after"));
  EXPECT_EQ(name_at(*processes_, child_key, 0x10000), "before");
  EXPECT_EQ(name_at(*processes_, parent.key(), 0x20000), "");
}

// The earlier process had the pid before it was reused, and its samples are still kept.
TEST_F(JitFollowingTest, AChildInheritsNothingOfAnEarlierProcessWithItsParentsPid) {
  const ForkedRuntime family;
  const Runtime& parent = family.parent();
  ASSERT_TRUE(family.is_ready());
  ProcessKey earlier = parent.key();
  earlier.start_ns -= 10'000'000'000;
  write_file(directory_ / ("jit-" + std::to_string(parent.pid()) + ".dump"),
             dump_of(parent.pid(), {.name = "earlier"}));
  ASSERT_TRUE(wait_for(*processes_, [&] { return processes_->stats().files != 0; }));
  sample(earlier);
  EXPECT_TRUE(comes_to_know(earlier, "earlier"));
  const ProcessKey child_key = key_of(family.child());
  sample(child_key);
  EXPECT_TRUE(read_to_end(child_key));
  EXPECT_EQ(name_at(*processes_, child_key, 0x10000), "");
}

constexpr std::size_t kForks = JitProcesses::kMaxLayers + 4;

// Forks a chain, each process the child of the one before. It runs in a forked child, so it may
// only make system calls.
bool fork_chain(pid_t* pids) {
  for (std::size_t i = 0; i < kForks; ++i) {
    const pid_t forked = ::fork();
    if (forked != 0) {
      pids[i] = forked;
      if (i == 0) return forked > 0;
      for (;;) ::pause();
    }
    ::alarm(60);
  }
  for (;;) ::pause();
}

TEST_F(JitFollowingTest, AChainOfForksInheritsFromItsNearestAncestorsAlone) {
  const std::string path = directory_ / "dump";
  write_file(path, std::string(40, '\0'));
  auto* const pids = static_cast<pid_t*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  volatile pid_t* const last = &pids[kForks - 1];
  const Runtime first([&] { return map_marker(path.c_str()) && fork_chain(pids); });
  ASSERT_TRUE(first.is_ready());
  ASSERT_TRUE(wait_for(*processes_, [last] { return *last > 0; }));
  std::string dump = dump_of(first.pid(), {.name = "first", .address = 0x10000});
  for (std::size_t i = 0; i < kForks; ++i) {
    dump += load_of(pids[i], {.name = std::to_string(i), .address = 0x20000 + i * 0x1000});
  }
  write_file(path, dump);
  sample(first.key());
  for (std::size_t i = 0; i < kForks; ++i) {  // one by one: a child inherits when it is scanned
    sample(key_of(pids[i]));
    EXPECT_TRUE(comes_to_know(key_of(pids[i]), std::to_string(i), 0x20000 + i * 0x1000));
    EXPECT_TRUE(read_to_end(key_of(pids[i])));
  }
  const ProcessKey deepest = key_of(pids[kForks - 1]);
  const std::uint64_t parents = 0x20000 + (kForks - 2) * 0x1000;
  EXPECT_EQ(name_at(*processes_, deepest, parents), std::to_string(kForks - 2));
  EXPECT_EQ(name_at(*processes_, deepest, 0x20000), "") << "of the farthest ancestor";
  for (std::size_t i = 0; i < kForks; ++i) ::kill(pids[i], SIGKILL);
  ::munmap(pids, 4096);
}

TEST_F(JitFollowingTest, CodeInSharedMemoryBelongsToAllProcessesWithTheFileMapped) {
  const std::string path = directory_ / "dump";
  write_file(path, std::string(40, '\0'));
  const Runtime worker([&] {
    return map_marker(path.c_str()) && ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC,
                                              MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
  });
  ASSERT_TRUE(worker.is_ready());
  const pid_t other = worker.pid() + 1;
  write_file(path, dump_of(other, {.name = "another's"}));
  sample(worker.key());
  EXPECT_TRUE(comes_to_know(worker.key(), "another's"));
}

TEST_F(JitFollowingTest, RecordsWithAForeignPidNameNoCode) {
  const Runtime victim;
  Runtime forger([&] { return ::chdir(directory_.path().c_str()) == 0; });
  write_file(directory_ / ("jit-" + std::to_string(forger.pid()) + ".dump"),
             dump_of(forger.pid(), {.name = "own"}) +
                 load_of(victim.pid(), {.name = "forged", .address = 0x10000, .time_ns = 5}));
  sample(victim.key());
  sample(forger.key());
  EXPECT_TRUE(comes_to_know(forger.key(), "own"));
  ASSERT_TRUE(read_to_end(victim.key()));
  EXPECT_EQ(name_at(*processes_, victim.key(), 0x10000), "");
  EXPECT_EQ(processes_->stats().malformed["foreign_pid"], 1U);
  processes_->forget_unless([](const ProcessKey&) { return false; });
  forger.end();
  processes_->forget_unless([](const ProcessKey&) { return false; });
  EXPECT_EQ(processes_->stats().malformed["foreign_pid"], 1U) << "also when the file is released";
}

TEST_F(JitFollowingTest, CodeBytesAreReadFromTheHeldFile) {
  const Runtime runtime([&] { return ::chdir(directory_.path().c_str()) == 0; });
  const std::string path = directory_ / ("jit-" + std::to_string(runtime.pid()) + ".dump");
  write_file(path, dump_of(runtime.pid(), {.name = "made", .address = 0x10000, .bytes = 5}));
  sample(runtime.key());
  ASSERT_TRUE(comes_to_know(runtime.key(), "made"));
  std::filesystem::remove(path);
  const auto function = processes_->at(runtime.key(), 0x10000, 1);
  ASSERT_TRUE(function);
  const auto source = processes_->source_file_of(function->code);
  ASSERT_TRUE(source);
  auto parser = Parser::start();
  ASSERT_TRUE(parser);
  const JitCodeQuery queries[] = {{.address = function->code.address,
                                   .code_bytes = function->code.bytes,
                                   .code = function->code.code,
                                   .debug_info = function->code.debug_info}};
  const auto answers = (*parser)->read_jit_code(source->file->fd->get(), source->state, queries);
  ASSERT_TRUE(answers) << answers.error().message;
  ASSERT_EQ(answers->functions.size(), 1U);
  EXPECT_EQ(answers->functions[0].code, std::string(5, '\x90'));
}

// An idle daemon costs nothing. The directory is the test's own, since other programs write into
// /tmp.
TEST(JitFollowerTest, TheThreadSleepsWhereNoFileAppears) {
  const PrivateDirectory directory;
  const auto follower = JitFollower::start({directory.path()});
  ASSERT_TRUE(follower) << follower.error().message;
  write_file(directory / "no-runtime", "");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the file has woken it
  const std::uint64_t before = sleeps_of_follower();
  EXPECT_GT(before, 0u);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LT(sleeps_of_follower() - before, 5u);
}

}  // namespace
}  // namespace profd::test
