// Mapping records: the file key, the names, and which mapping was at an address at which time.

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>

#include "collectors/files/open_mapped_file.h"
#include "collectors/host/clock.h"
#include "tests/bpf/sampling_test.h"
#include "tests/bpf/workload.h"

namespace profd::test {
namespace {

namespace fs = std::filesystem;

class MappingTest : public SamplingTest {
 protected:
  void SetUp() override {
    SamplingTest::SetUp();
    std::string pattern = (fs::temp_directory_path() / "profd mapping XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }

  // The mapping of the leaf frame of a process.
  std::set<std::uint64_t> leaf_mappings(std::uint32_t tgid) const {
    std::set<std::uint64_t> ids;
    for (const StoredSample* sample : sink_.of_process(tgid)) {
      if (sample->view.user_frames.empty()) continue;
      const unsigned index = sample->frame(0).mapping;
      if (index != PROFD_NO_MAPPING) ids.insert(sample->view.mapping_ids[index]);
    }
    return ids;
  }

  // For a minute at most.
  void drain_until_quiet() {
    const auto guard = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    pollfd wake{.fd = sampler_->wake_fd(), .events = POLLIN, .revents = 0};
    do {
      sampler_->drain();
    } while (::poll(&wake, 1, 1000) != 0 && std::chrono::steady_clock::now() < guard);
  }

  fs::path directory_;
};

TEST_F(MappingTest, AMappingHasTheFileKeyTheNamesAndAnOpenFile) {
  const fs::path program = directory_ / "a program";
  fs::copy_file(workload_path(), program);
  const Workload workload({"spin"}, {.program = program});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  collect(workload.pid(), 20);
  stop_balanced(slot);
  struct stat status {};
  ASSERT_EQ(::stat(program.c_str(), &status), 0);
  const auto ids = leaf_mappings(workload.pid());
  ASSERT_EQ(ids.size(), 1U);
  const StoredMapping& mapping = sink_.mappings.at(*ids.begin());
  EXPECT_EQ(mapping.kind, PROFD_MAPPING_FILE);
  EXPECT_EQ(mapping.file.inode, status.st_ino);
  EXPECT_EQ(mapping.file.size_bytes, static_cast<std::uint64_t>(status.st_size));
  EXPECT_EQ(mapping.file.ctime_ns, nanoseconds_of(status.st_ctim));
  EXPECT_EQ(path_from_names(mapping.names), program.string());
  ASSERT_NE(mapping.mapped, nullptr);
  EXPECT_EQ(mapping.mapped->path, program.string());
  EXPECT_TRUE(mapping.mapped->fd.valid()) << mapping.mapped->error;
  EXPECT_EQ(sink_.processes.front().executable, mapping.file);
}

TEST_F(MappingTest, ADeletedFileIsOpenedAndNamed) {
  const fs::path program = directory_ / "deleted";
  fs::copy_file(workload_path(), program);
  const Workload workload({"spin"}, {.program = program});
  fs::remove(program);
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  collect(workload.pid(), 20);
  stop_balanced(slot);
  const auto ids = leaf_mappings(workload.pid());
  ASSERT_EQ(ids.size(), 1U);
  const StoredMapping& mapping = sink_.mappings.at(*ids.begin());
  ASSERT_NE(mapping.mapped, nullptr);
  EXPECT_TRUE(mapping.mapped->fd.valid()) << mapping.mapped->error;
  EXPECT_TRUE(mapping.mapped->deleted);
  EXPECT_EQ(mapping.mapped->path, program.string());
}

TEST_F(MappingTest, TwoFilesAtOneAddressAreTwoMappings) {
  const Workload workload({"remap", directory_.string()});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  constexpr std::uint64_t kPlace = 0x700000000000;  // workload.c, map_code()
  const auto files_there = [&] {
    std::set<std::string> paths;
    for (const std::uint64_t id : leaf_mappings(workload.pid())) {
      const StoredMapping& mapping = sink_.mappings.at(id);
      if (mapping.start == kPlace) paths.insert(path_from_names(mapping.names));
    }
    return paths;
  };
  collect_until([&] { return files_there().size() == 2; });
  stop_balanced(slot);
  EXPECT_EQ(files_there(),
            (std::set{(directory_ / "first").string(), (directory_ / "second").string()}));
  // No two addresses or files have the same id.
  for (const auto& [id, mapping] : sink_.mappings) EXPECT_EQ(mapping.process.tgid, workload.pid());
}

TEST_F(MappingTest, AnonymousCodeAndTheVdsoHaveTheirOwnKinds) {
  const Workload in_memory({"anonymous"});
  const Workload in_vdso({"clock"});
  Target target;
  target.pids = {in_memory.pid(), in_vdso.pid()};
  const SessionSlot slot = start(target);
  const auto saw = [&](const Workload& workload, profd_mapping_kind kind) {
    return std::ranges::any_of(leaf_mappings(workload.pid()), [&](std::uint64_t id) {
      const StoredMapping& mapping = sink_.mappings.at(id);
      return mapping.kind == kind && mapping.names.empty() && mapping.file.empty();
    });
  };
  collect_until(
      [&] { return saw(in_memory, PROFD_MAPPING_ANONYMOUS) && saw(in_vdso, PROFD_MAPPING_VDSO); });
  stop_balanced(slot);
}

TEST_F(MappingTest, AProcessOfTwentyMillisecondsHasItsFileOpened) {
  const fs::path program = directory_ / "short";
  fs::copy_file(workload_path(), program);
  const Workload workload({"spawn", "0.02"}, {.program = program});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  collect_until([&] {
    // Samples are not a condition: those in the kernel only have no mapping.
    std::set<ProcessKey> processes;
    for (const auto& [id, mapping] : sink_.mappings) {
      if (mapping.kind == PROFD_MAPPING_FILE) processes.insert(mapping.process);
    }
    return processes.size() >= 10;
  });
  stop_balanced(slot);
  EXPECT_EQ(sink_.unannounced(), 0U);
  std::size_t opened = 0;
  for (const auto& [id, mapping] : sink_.mappings) {
    if (mapping.kind != PROFD_MAPPING_FILE) continue;
    EXPECT_EQ(path_from_names(mapping.names), program.string());
    opened += mapping.mapped != nullptr && mapping.mapped->fd.valid();
  }
  EXPECT_GE(opened, 10U);
}

// The files of both processes are known, and no table is missing.
TEST_F(MappingTest, TheFirstAnonymousCodeOfAProcessWakesUserSpace) {
  open({.ring_bytes = std::size_t{16} << 20});  // not half full within the minute of a red test
  const Workload in_file({"spin"});
  const Workload in_memory({"anonymous"});
  // What a CPU has sent, it does not send again.
  run_on(in_file.pid(), allowed_cpus().front());
  run_on(in_memory.pid(), allowed_cpus().front());
  in_memory.signal(SIGSTOP);
  Target target;
  target.pids = {in_file.pid(), in_memory.pid()};
  const SessionSlot slot = start(target, 99);
  collect(in_file.pid(), 20);
  in_file.signal(SIGSTOP);
  drain_until_quiet();
  in_memory.signal(SIGCONT);
  pollfd wake{.fd = sampler_->wake_fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&wake, 1, 60'000), 1);
  sampler_->drain();
  EXPECT_TRUE(std::ranges::any_of(sink_.mappings, [&](const auto& entry) {
    return entry.second.process.tgid == in_memory.pid() &&
           entry.second.kind == PROFD_MAPPING_ANONYMOUS;
  }));
  stop_balanced(slot);
}

TEST_F(MappingTest, ANewFileWakesUserSpace) {
  const Workload workload({"spin"});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  pollfd wake{.fd = sampler_->wake_fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&wake, 1, 60'000), 1);
  sampler_->drain();
  stop_balanced(slot);
}

}  // namespace
}  // namespace profd::test
