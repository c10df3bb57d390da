#include "daemon/samples/process_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/files/mapped_file.h"
#include "formats/base/unique_fd.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

constexpr std::uint32_t kAlice = 4001;
constexpr std::uint32_t kBob = 4002;
constexpr std::size_t kImagesOfUser = ProcessTable::kMaxUnitsOfUser / ProcessTable::kUnitsOfImage;
constexpr std::size_t kUnits = ProcessTable::kUnitsOfMapping;
constexpr std::uint32_t kNoPid = 0x7fffffff;  // above what the kernel gives out

// The `number`th image of a program of a process that is gone.
ProcessKey image_of(std::uint32_t number) {
  return {.tgid = kNoPid, .exec_id = number, .start_ns = 1};
}

class ProcessTableTest : public testing::Test {
 protected:
  void identify(const ProcessKey& key, std::uint32_t uid) {
    ProcessView view{};
    view.process = key;
    view.time_ns = 1;
    view.uid = uid;
    table_.add(view);
  }

  void name(const ProcessKey& key, std::string_view comm, std::uint64_t time_ns) {
    const ProcessImage* known = table_.find(key);
    ProcessView view{};
    view.process = key;
    view.time_ns = time_ns;
    view.uid = known != nullptr ? known->uid : 0;
    view.comm = comm;
    table_.add(view);
  }

  void map(const ProcessKey& key, std::size_t mappings) {
    for (std::size_t i = 0; i < mappings; ++i) {
      MappingView view{};
      view.process = key;
      view.id = ++last_id_;
      table_.add(view, nullptr);
    }
  }

  [[nodiscard]] std::size_t kept(const ProcessKey& key) const {
    return table_.find(key)->mappings.size();
  }

  // Full images and, at last, one that fills up what the user may have; gives the next free number.
  std::uint32_t fill(std::uint32_t uid, std::uint32_t number) {
    constexpr std::size_t kFull = ProcessTable::kUnitsOfImage + kUnits * ProcessTable::kMaxMappings;
    std::size_t left = ProcessTable::kMaxUnitsOfUser;
    for (; left > 0; ++number) {
      identify(image_of(number), uid);
      const std::size_t units = std::min(left, kFull);
      map(image_of(number), (units - ProcessTable::kUnitsOfImage) / kUnits);
      left -= units;
    }
    return number;
  }

  void forget_all() {
    forget_unless([](const ProcessKey&) { return false; }).destroy();
  }
  ForgottenImages forget_unless(const std::function<bool(const ProcessKey&)>& needed) {
    return table_.forget_unless(needed);
  }

  UserRefusals refusals_;
  ProcessTable table_{&refusals_};
  std::uint64_t last_id_ = 0;
};

TEST_F(ProcessTableTest, KeepsOnlySoMuchOfAUser) {
  const std::uint32_t next = fill(kAlice, 1);
  EXPECT_EQ(table_.take_dropped(), 0U);
  const std::size_t mappings = kept(image_of(next - 1));
  map(image_of(next - 1), 3);
  EXPECT_EQ(kept(image_of(next - 1)), mappings);
  identify(image_of(next), kAlice);
  EXPECT_EQ(table_.find(image_of(next)), nullptr);
  EXPECT_EQ(table_.units(), ProcessTable::kMaxUnitsOfUser);
  EXPECT_EQ(table_.take_dropped(), 4U);
  EXPECT_EQ(refusals_.users(),
            std::vector({StatusInfo::User{.uid = kAlice, .refused = {{"mappings_dropped", 4}}}}));
  EXPECT_EQ(table_.take_dropped(), 0U);
  identify(image_of(next + 1), kBob);
  map(image_of(next + 1), 3);
  EXPECT_EQ(kept(image_of(next + 1)), 3U);
}

TEST_F(ProcessTableTest, CountsSubordinateUidsAsTheirUser) {
  test::ScratchDirectory files;
  const std::string subuid = files.write("subuid", "alice:500000:65536\n");
  const std::string passwd = files.write("passwd", "alice:x:4001:4001::/:/bin/sh\n");
  ProcessTable table(&refusals_, UidOwners(subuid, passwd));
  std::size_t images = 0;
  for (std::uint32_t i = 0; i < 2 * kImagesOfUser; ++i) {
    ProcessView view{};
    view.process = image_of(i);
    view.uid = 500'000 + i;
    table.add(view);
    images += table.find(view.process) != nullptr ? 1 : 0;
  }
  EXPECT_EQ(images, kImagesOfUser);
}

TEST_F(ProcessTableTest, LimitsRootOnlyByTheLimitOfAll) {
  const std::uint32_t next = fill(0, 1);
  identify(image_of(next), 0);
  map(image_of(next), 3);
  EXPECT_EQ(kept(image_of(next)), 3U);
}

TEST_F(ProcessTableTest, UsersHaveHalfAndRootTheRest) {
  std::uint32_t next = 1;
  for (std::uint32_t uid = 5000; uid < 5004; ++uid) next = fill(uid, next);
  EXPECT_EQ(table_.take_dropped(), 0U);
  EXPECT_EQ(table_.units(), ProcessTable::kMaxUnitsOfUsers);
  identify(image_of(next), kAlice);
  EXPECT_EQ(table_.find(image_of(next)), nullptr);
  EXPECT_EQ(table_.take_dropped(), 1U);
  for (int i = 0; i < 4; ++i) next = fill(0, next);
  EXPECT_EQ(table_.take_dropped(), 0U);
  EXPECT_EQ(table_.units(), ProcessTable::kMaxUnits);
  identify(image_of(next), 0);
  EXPECT_EQ(table_.find(image_of(next)), nullptr);
}

TEST_F(ProcessTableTest, ChargesMappingsThatCameFirstToTheUserOnceItIsKnown) {
  constexpr std::size_t kEarly = 10;
  map(image_of(1), kEarly);
  identify(image_of(1), kAlice);
  const std::uint32_t next = fill(kAlice, 2);
  EXPECT_GT(table_.take_dropped(), 0U);
  identify(image_of(next), kAlice);
  EXPECT_EQ(table_.find(image_of(next)), nullptr);
  identify(image_of(1), kBob);
  identify(image_of(next), kAlice);
  EXPECT_NE(table_.find(image_of(next)), nullptr);
}

TEST_F(ProcessTableTest, HasRoomAgainAfterImagesAreRemoved) {
  fill(kAlice, 1);
  forget_all();
  EXPECT_EQ(table_.size(), 0U);
  EXPECT_EQ(table_.units(), 0U);
  fill(kAlice, 1);
  EXPECT_EQ(table_.take_dropped(), 0U);
}

TEST_F(ProcessTableTest, KeepsTheImagesThatAreNeededOrMayBeSampledAgain) {
  const ProcessKey own{.tgid = static_cast<std::uint32_t>(::getpid()), .exec_id = 1, .start_ns = 1};
  for (const ProcessKey& key : {own, image_of(1), image_of(2)}) {
    identify(key, kAlice);
    map(key, 2);
  }
  EXPECT_FALSE(forget_unless([](const ProcessKey& key) { return key == image_of(1); }).empty());
  EXPECT_NE(table_.find(own), nullptr);
  EXPECT_NE(table_.find(image_of(1)), nullptr);
  EXPECT_EQ(table_.find(image_of(2)), nullptr);
  EXPECT_EQ(table_.units(), 2 * (ProcessTable::kUnitsOfImage + 2 * kUnits));
}

// A process that executes programs all the time stays, and leaves an image with each.
TEST_F(ProcessTableTest, ForgetsTheProgramsThatAProcessRanBefore) {
  const auto program = [](std::uint32_t number) {
    return ProcessKey{
        .tgid = static_cast<std::uint32_t>(::getpid()), .exec_id = number, .start_ns = 1};
  };
  for (const std::uint32_t number : {3U, 1U, 2U}) identify(program(number), kAlice);
  const auto is_session_with_2 = [&](const ProcessKey& key) { return key == program(2); };
  EXPECT_TRUE(forget_unless(is_session_with_2).empty()) << "its last samples may come yet";
  EXPECT_FALSE(forget_unless(is_session_with_2).empty());
  EXPECT_EQ(table_.find(program(1)), nullptr);
  EXPECT_NE(table_.find(program(2)), nullptr);
  EXPECT_NE(table_.find(program(3)), nullptr);
  forget_all();
  EXPECT_EQ(table_.find(program(2)), nullptr);
  EXPECT_NE(table_.find(program(3)), nullptr);
  EXPECT_EQ(table_.units(), ProcessTable::kUnitsOfImage);
}

TEST_F(ProcessTableTest, SharesAnImageThatLaterRecordsDoNotChange) {
  identify(image_of(1), kAlice);
  map(image_of(1), 2);
  const std::shared_ptr<const ProcessImage> shared = table_.share(image_of(1));
  map(image_of(1), 1);
  identify(image_of(1), kBob);
  name(image_of(1), "renamed", 2);
  EXPECT_EQ(shared->mappings.size(), 2U);
  EXPECT_EQ(shared->uid, kAlice);
  EXPECT_EQ(shared->comm, "");
  const ProcessImage& now = *table_.find(image_of(1));
  EXPECT_EQ(now.mappings.size(), 3U);
  EXPECT_EQ(now.uid, kBob);
  EXPECT_EQ(now.comm, "renamed");
}

TEST_F(ProcessTableTest, SharesTheFileThatAMappingHadThen) {
  MappingView view{};
  view.process = image_of(1);
  view.id = 5;
  const auto opening = std::make_shared<MappedFile>();
  table_.add(view, opening);
  const std::shared_ptr<const ProcessImage> shared = table_.share(image_of(1));
  const auto open = std::make_shared<MappedFile>();
  table_.add(view, open);
  EXPECT_EQ(shared->mappings.at(5).file, opening);
  EXPECT_EQ(table_.find(image_of(1))->mappings.at(5).file, open);
}

// A user can mount a file at any path of a mount namespace of his own, and map it first.
TEST_F(ProcessTableTest, AProcessKnowsAFileByItsOwnPath) {
  const auto file = std::make_shared<MappedFile>();
  file->path = "/home/alice/secret/libm.so.6";
  const ProcessKey first{.tgid = 1, .exec_id = 1, .start_ns = 1};
  const ProcessKey later{.tgid = 1, .exec_id = 1, .start_ns = 2};  // the pid is used again
  const ProcessKey other{.tgid = 2, .exec_id = 1, .start_ns = 1};
  const std::string_view own_names("libm.so.6\0lib\0", 14);
  const struct {
    ProcessKey process;
    std::string_view names;
    bool names_cut;
    const char* path;
  } cases[] = {
      {first, own_names, false, "/home/alice/secret/libm.so.6"},
      {first, "", false, "/home/alice/secret/libm.so.6"},
      {later, own_names, false, "/lib/libm.so.6"},
      {other, own_names, false, "/lib/libm.so.6"},
      {other, own_names, true, "unnamed-file"},
      {other, "", false, "unnamed-file"},  // its mount is detached
      {other, {"libm.so.6\0secret\0alice\0home\0", 28}, false, "/home/alice/secret/libm.so.6"},
  };
  file->process = first;
  for (const auto& c : cases) {
    MappingView view{};
    view.process = c.process;
    view.id = ++last_id_;
    view.names = c.names;
    view.names_cut = c.names_cut;
    table_.add(view, nullptr);  // not opened yet
    table_.add(view, file);
    EXPECT_EQ(path_of(table_.find(view.process)->mappings.at(view.id)), c.path);
  }
}

// The kernel sends no names of such a file.
TEST_F(ProcessTableTest, SharedMemoryHasOnePathForAllProcesses) {
  for (const char* const path : {"/memfd:code", "/SYSV0000002a", "/dev/zero", "/lib/libm.so.6"}) {
    const auto file = std::make_shared<MappedFile>();
    file->path = path;
    file->deleted = true;
    file->process = {.tgid = 1, .exec_id = 1, .start_ns = 1};
    MappingView view{};
    view.process = image_of(1);
    view.id = ++last_id_;
    table_.add(view, file);
    const bool is_of_a_directory = path == std::string_view("/lib/libm.so.6");
    EXPECT_EQ(path_of(table_.find(view.process)->mappings.at(view.id)),
              is_of_a_directory ? "unnamed-file" : path);
  }
}

TEST_F(ProcessTableTest, APathOfItsOwnIsPaidFor) {
  const auto file = std::make_shared<MappedFile>();
  file->path = "/lib/libm.so.6";
  MappingView view{};
  view.process = image_of(1);
  view.id = 1;
  const std::string names = std::string(250, 'a') + '\0' + std::string(249, 'b') + '\0';
  view.names = names;
  table_.add(view, nullptr);
  EXPECT_EQ(table_.units(), ProcessTable::kUnitsOfImage + kUnits);
  table_.add(view, file);
  EXPECT_EQ(table_.units(), ProcessTable::kUnitsOfImage + kUnits + 5);
  forget_all();
  EXPECT_EQ(table_.units(), 0U);
}

// A dump or window takes no copies.
TEST_F(ProcessTableTest, SharesOneObjectUntilARecordChangesIt) {
  MappingView view{};
  view.process = image_of(1);
  view.id = 5;
  const auto file = std::make_shared<MappedFile>();
  table_.add(view, file);
  name(image_of(1), "program", 1);
  const std::shared_ptr<const ProcessImage> shared = table_.share(image_of(1));
  EXPECT_EQ(shared.get(), table_.find(image_of(1)));
  table_.add(view, file);
  table_.add(view, nullptr);
  name(image_of(1), "program", 2);
  EXPECT_EQ(table_.share(image_of(1)), shared) << "these records repeat what is known";
  map(image_of(1), 1);
  const std::shared_ptr<const ProcessImage> changed = table_.share(image_of(1));
  EXPECT_NE(changed, shared);
  EXPECT_EQ(table_.share(image_of(1)), changed);
}

TEST_F(ProcessTableTest, KeepsTheNameOfTheLatestRecordWhateverItsOrder) {
  name(image_of(1), "program", 2);
  name(image_of(1), "program", 4);
  name(image_of(1), "early", 3);
  EXPECT_EQ(table_.find(image_of(1))->comm, "program");
}

TEST_F(ProcessTableTest, SharesNothingOfAProcessThatIsNotKnown) {
  EXPECT_EQ(table_.share(image_of(1)), nullptr);
  EXPECT_EQ(table_.size(), 0U);
}

TEST_F(ProcessTableTest, CountsTheMappingsOfASharedImageOnce) {
  identify(image_of(1), kAlice);
  map(image_of(1), 2);
  const std::shared_ptr<const ProcessImage> shared = table_.share(image_of(1));
  map(image_of(1), 1);
  identify(image_of(1), kBob);
  EXPECT_EQ(table_.units(), ProcessTable::kUnitsOfImage + 3 * kUnits);
  forget_all();
  EXPECT_EQ(table_.units(), 0U);
  EXPECT_EQ(shared->mappings.size(), 2U) << "it outlives the table's";
}

// Which takes long for many, so the caller says where.
TEST_F(ProcessTableTest, LeavesItToTheCallerToDestroyWhatItForgets) {
  for (const std::uint32_t number : {1U, 2U, 3U}) map(image_of(number), 2);
  const std::weak_ptr<const ProcessImage> unused = table_.share(image_of(1));
  const std::shared_ptr<const ProcessImage> used = table_.share(image_of(2));
  ForgottenImages forgotten =
      forget_unless([](const ProcessKey& key) { return key == image_of(3); });
  EXPECT_FALSE(forgotten.empty());
  EXPECT_EQ(table_.find(image_of(1)), nullptr);
  EXPECT_EQ(table_.find(image_of(2)), nullptr);
  EXPECT_FALSE(unused.expired());
  forgotten.destroy();
  EXPECT_TRUE(forgotten.empty());
  EXPECT_TRUE(unused.expired());
  EXPECT_EQ(used->mappings.size(), 2U);
  EXPECT_TRUE(forget_unless([](const ProcessKey&) { return true; }).empty());
}

// PHP makes its JIT code not executable while it writes to it. The mapping of the sample does not
// exist then, and no name leads to the file.
TEST(JitCode, MayLieInSharedMemoryWhoseFileCouldNotBeOpened) {
  const UniqueFd memory(::memfd_create("shared", MFD_CLOEXEC));
  const UniqueFd disk(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  for (const auto& [fd, may_be] : {std::pair{memory.get(), true}, std::pair{disk.get(), false}}) {
    struct stat status {};
    ASSERT_EQ(::fstat(fd, &status), 0);
    ProcessMapping mapping;
    mapping.kind = PROFD_MAPPING_FILE;
    mapping.file_key.inode = status.st_ino;
    mapping.file_key.device = ::gnu_dev_major(status.st_dev) << 20 | ::gnu_dev_minor(status.st_dev);
    mapping.file = std::make_shared<MappedFile>();
    EXPECT_EQ(may_be_jit_code(mapping), may_be) << fd;
  }
}

TEST(JitCode, DoesNotLieInADeletedLibrary) {
  for (const auto& [path, may_be] :
       {std::pair{"/tmp/ffi4Xq1", true}, std::pair{"/tmp/jna-1/jna2.tmp", true},
        std::pair{"/tmp/libnetty.so", false}, std::pair{"/dev/shm/libfoo.so.6", false},
        std::pair{"/tmp/.so/code", true}, std::pair{"/tmp/addon.node", false},
        std::pair{"/usr/lib/ffi4Xq1", false}}) {
    ProcessMapping mapping;
    mapping.kind = PROFD_MAPPING_FILE;
    mapping.file_key = {.inode = 17, .device = 8U << 20 | 1U};
    auto file = std::make_shared<MappedFile>();
    file->path = path;
    file->deleted = true;
    mapping.file = std::move(file);
    EXPECT_EQ(may_be_jit_code(mapping), may_be) << path;
  }
}

}  // namespace
}  // namespace profd
