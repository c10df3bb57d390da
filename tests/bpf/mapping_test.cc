// Mappings as they are told: files by the kernel's key, their names, and what stood at an address
// when.

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

  // The mapping of the leaf of a process's samples.
  std::set<std::uint64_t> leaf_mappings(std::uint32_t tgid) const {
    std::set<std::uint64_t> ids;
    for (const StoredSample* sample : sink_.of_process(tgid)) {
      if (sample->view.user_frames.empty()) continue;
      const unsigned index = sample->frame(0).mapping;
      if (index != PROFD_NO_MAPPING) ids.insert(sample->view.mapping_ids[index]);
    }
    return ids;
  }

  fs::path directory_;
};

TEST_F(MappingTest, AFileIsToldWithTheKernelsKeyItsNamesAndAnOpenFile) {
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

TEST_F(MappingTest, ADeletedFileIsStillOpenedAndNamed) {
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
  // One id never stands for two places or files.
  for (const auto& [id, mapping] : sink_.mappings) EXPECT_EQ(mapping.process.tgid, workload.pid());
}

TEST_F(MappingTest, CodeInMemoryAndTheVdsoHaveKindsOfTheirOwn) {
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
    // Not by the samples: a process may be met only in the kernel, where it shows no mapping.
    std::set<ProcessKey> processes;
    for (const auto& [id, mapping] : sink_.mappings) {
      if (mapping.kind == PROFD_MAPPING_FILE) processes.insert(mapping.process);
    }
    return processes.size() >= 10;
  });
  stop_balanced(slot);
  EXPECT_EQ(sink_.untold(), 0U);
  std::size_t opened = 0;
  for (const auto& [id, mapping] : sink_.mappings) {
    if (mapping.kind != PROFD_MAPPING_FILE) continue;
    EXPECT_EQ(path_from_names(mapping.names), program.string());
    opened += mapping.mapped != nullptr && mapping.mapped->fd.valid();
  }
  EXPECT_GE(opened, 10U);
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
