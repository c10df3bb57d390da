// The limits on the pids, names, lines and processes that one user's files can make the daemon
// keep.

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <malloc.h>

#include "collectors/jit/processes.h"
#include "tests/collectors/jit/hostile_dump.h"
#include "tests/collectors/jit/runtime.h"
#include "tests/formats/jit/jitdump_writer.h"

namespace profd::test {
namespace {

using JitBounds = HostileDump;

TEST_F(JitBounds, RecordsOfTooManyPidsAreCounted) {
  std::string dump = dump_of(pid(), {.name = "own"});
  for (pid_t other = 1; other < 200; ++other) {
    dump += load_of(other + 100'000'000, {.name = "other", .address = 0x20000});
  }
  write(dump);
  EXPECT_TRUE(is_named("own"));
  EXPECT_TRUE(comes_to_be_refused(JitRefusal::kForeignPid));
}

// 100 MB of names: each is cut, and the memory for all is limited.
TEST_F(JitBounds, LongNamesTakeLimitedMemory) {
  std::string dump = dump_header(pid());
  for (std::uint64_t i = 0; i < 1700; ++i) {
    dump += load_of(
        pid(), {.name = std::string(60'000, 'n'), .address = 0x20000 + 64 * i, .time_ns = i + 1});
  }
  write(dump + load_of(pid(), {.name = "last", .time_ns = 5000}));
  EXPECT_TRUE(is_named("last"));
  EXPECT_LE(processes_->stats().bytes, JitSources::kMaxBytesOfUser);
}

// Other work of the io thread waits for one part at most.
TEST_F(JitBounds, PartsOfAFileAreAppliedOneAtATime) {
  // Ten parts: the follower stops reading where 16 events wait to be taken.
  constexpr std::uint64_t kFunctions = 40'000;
  std::string dump = dump_header(pid());
  for (std::uint64_t i = 0; i < kFunctions; ++i) {
    dump += load_of(pid(), {.name = "f", .address = 0x20000 + 64 * i, .bytes = 1, .time_ns = 1});
  }
  write(dump);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (processes_->stats().bytes_read < dump.size()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::uint64_t turns = 1;
  while (!processes_->poll()) ++turns;
  EXPECT_GE(turns, dump.size() / (256 * 1024));
  EXPECT_EQ(processes_->info(runtime_.key())->functions, kFunctions);
}

std::string lines_of(std::uint64_t address) {
  JitDumpWriter writer;
  const JitDumpLine lines[] = {{.address = address, .line = 1, .discriminator = 0, .file = "f"}};
  writer.debug_info(1, address, lines);
  return writer.take();
}

std::size_t heap_bytes() {
  const struct mallinfo2 heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

// Without a limit for each file, this would be 64 times 30,000 entries of 80 bytes.
TEST_F(JitBounds, LinesWithoutCodeTakeTheMemoryOfOneFile) {
  constexpr std::uint64_t kLines = 30'000;
  std::string dump = dump_of(pid(), {.name = "own"});
  for (pid_t i = 1; i < static_cast<pid_t>(JitSource::kMaxCodeMaps); ++i) {
    dump += load_of(100'000'000 + i, {.name = "other", .address = 0x20000});
  }
  write(dump);
  ASSERT_TRUE(is_named("own"));
  const std::size_t before = heap_bytes();
  std::string lines;
  for (std::uint64_t i = 0; i < kLines; ++i) lines += lines_of(0x1000000 + i * 64);
  append_file(path_, lines + load_of(pid(), {.name = "last", .time_ns = 5000}));
  ASSERT_TRUE(is_named("last"));
  EXPECT_TRUE(is_malformed_by("lines_without_code"));
  EXPECT_LE(heap_bytes(), before + (std::size_t{32} << 20));
}

TEST_F(JitBounds, LinesThatWaitForTheirCodeCountAsMemory) {
  write(dump_of(pid(), {.name = "own"}));
  ASSERT_TRUE(is_named("own"));
  const std::uint64_t before = processes_->stats().bytes;
  std::string lines;
  for (std::uint64_t i = 0; i < 1000; ++i) lines += lines_of(0x1000000 + i * 64);
  append_file(path_, lines);
  EXPECT_TRUE(wait_for(*processes_, [&] {
    return processes_->stats().bytes >= before + 1000 * sizeof(JitFileRange);
  }));
}

constexpr std::uint32_t kFirst = 100'000'000;  // beyond the kernel's highest pid

class JitProcessBounds : public testing::Test {
 protected:
  void SetUp() override {
    auto started = JitProcesses::start({.owners = owners_with_subordinates(directory_)});
    ASSERT_TRUE(started) << started.error().message;
    processes_ = std::move(*started);
  }

  // Whether a process with JIT code has room.
  bool see(std::uint32_t tgid, std::uint32_t uid) {
    ProcessView view{};
    view.process = {.tgid = tgid, .exec_id = 1, .start_ns = 1};
    view.uid = uid;
    processes_->on_process(view);
    processes_->on_mapping(jit_code_of(view.process));
    return processes_->info(view.process).has_value();
  }

  PrivateDirectory directory_;
  std::unique_ptr<JitProcesses> processes_;
};

TEST_F(JitProcessBounds, OneUsersProcessesLeaveRoomForOthers) {
  for (std::uint32_t i = 0; i < JitProcesses::kMaxProcessesOfUser; ++i) {
    ASSERT_TRUE(see(kFirst + i, i % 2 == 0 ? kOther : kSubordinate + i % 1000));
  }
  EXPECT_FALSE(see(kFirst - 1, kOther));
  EXPECT_NE(refused(*processes_, JitRefusal::kOverShare), 0U);
  EXPECT_TRUE(see(kFirst - 2, kOther + 1));
  EXPECT_TRUE(see(kFirst - 3, 0));
}

TEST_F(JitProcessBounds, ProcessesOfUsersLeaveHalfToRoot) {
  for (std::uint32_t i = 0; i < JitProcesses::kMaxProcessesOfUsers; ++i) {
    ASSERT_TRUE(see(kFirst + i, 1000 + i));
  }
  EXPECT_FALSE(see(kFirst - 1, 5000));
  EXPECT_EQ(refused(*processes_, JitRefusal::kQueueFull), 1U);
  EXPECT_TRUE(see(kFirst - 2, 0));
}

TEST_F(JitProcessBounds, TheUserWithTheMostProcessesLosesOneForAnother) {
  for (std::uint32_t i = 0; i < JitProcesses::kMaxProcessesOfUsers; ++i) {
    ASSERT_TRUE(see(kFirst + i, 1000 + i % 4));
  }
  std::uint32_t others = 0;
  while (others < JitProcesses::kMaxProcessesOfUser && see(kFirst - 1 - others, 2000)) ++others;
  EXPECT_NEAR(others, JitProcesses::kMaxProcessesOfUsers / 5, 1);
  EXPECT_EQ(refused(*processes_, JitRefusal::kOverShare), others);
  EXPECT_EQ(refused(*processes_, JitRefusal::kQueueFull), 1U);
}

}  // namespace
}  // namespace profd::test
