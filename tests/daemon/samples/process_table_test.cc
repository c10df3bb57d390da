#include "daemon/samples/process_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/files/mapped_file.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

constexpr std::uint32_t kAlice = 4001;
constexpr std::uint32_t kBob = 4002;
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

  // As many as a user may have, in full images; gives the next free number.
  std::uint32_t fill(std::uint32_t uid, std::uint32_t first) {
    constexpr auto kImages = ProcessTable::kMaxMappingsOfUid / ProcessTable::kMaxMappings;
    for (std::uint32_t i = 0; i < kImages; ++i) {
      identify(image_of(first + i), uid);
      map(image_of(first + i), ProcessTable::kMaxMappings);
    }
    return first + static_cast<std::uint32_t>(kImages);
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

TEST_F(ProcessTableTest, KeepsOnlySoManyMappingsOfAUser) {
  const std::uint32_t next = fill(kAlice, 1);
  EXPECT_EQ(table_.take_dropped(), 0U);
  identify(image_of(next), kAlice);
  map(image_of(next), 3);
  EXPECT_EQ(kept(image_of(next)), 0U);
  EXPECT_EQ(table_.mappings(), ProcessTable::kMaxMappingsOfUid);
  EXPECT_EQ(table_.take_dropped(), 3U);
  EXPECT_EQ(refusals_.users(),
            std::vector({StatusInfo::User{.uid = kAlice, .refused = {{"mappings_dropped", 3}}}}));
  EXPECT_EQ(table_.take_dropped(), 0U);
  identify(image_of(next + 1), kBob);
  map(image_of(next + 1), 3);
  EXPECT_EQ(kept(image_of(next + 1)), 3U);
}

TEST_F(ProcessTableTest, LimitsRootOnlyByTheLimitOfAll) {
  const std::uint32_t next = fill(0, 1);
  identify(image_of(next), 0);
  map(image_of(next), 3);
  EXPECT_EQ(kept(image_of(next)), 3U);
}

TEST_F(ProcessTableTest, KeepsOnlySoManyMappingsInAll) {
  std::uint32_t next = 1;
  for (std::uint32_t uid = 5000; table_.mappings() < ProcessTable::kMaxMappingsInAll; ++uid) {
    next = fill(uid, next);
    ASSERT_EQ(table_.take_dropped(), 0U);
  }
  identify(image_of(next), 0);
  map(image_of(next), 1);
  EXPECT_EQ(kept(image_of(next)), 0U);
  EXPECT_EQ(table_.take_dropped(), 1U);
}

TEST_F(ProcessTableTest, ChargesMappingsThatCameFirstToTheUserOnceItIsKnown) {
  constexpr std::size_t kEarly = 10;
  map(image_of(1), kEarly);
  identify(image_of(1), kAlice);
  const std::uint32_t next = fill(kAlice, 2);
  EXPECT_EQ(table_.take_dropped(), kEarly);
  EXPECT_EQ(table_.mappings(), ProcessTable::kMaxMappingsOfUid);
  identify(image_of(1), kBob);
  identify(image_of(next), kAlice);
  map(image_of(next), kEarly + 1);
  EXPECT_EQ(kept(image_of(next)), kEarly);
}

TEST_F(ProcessTableTest, HasRoomAgainAfterImagesAreRemoved) {
  fill(kAlice, 1);
  forget_all();
  EXPECT_EQ(table_.size(), 0U);
  EXPECT_EQ(table_.mappings(), 0U);
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
  EXPECT_EQ(table_.mappings(), 4U);
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
TEST_F(ProcessTableTest, AProcessKnowsThePathOfAnotherOnlyWhereItIsItsOwn) {
  const auto file = std::make_shared<MappedFile>();
  file->path = "/home/alice/secret/libm.so.6";
  const ProcessKey first{.tgid = 1, .exec_id = 1, .start_ns = 1};
  const ProcessKey later{.tgid = 1, .exec_id = 1, .start_ns = 2};  // the pid is used again
  const ProcessKey other{.tgid = 2, .exec_id = 1, .start_ns = 1};
  const std::string_view same_name("libm.so.6\0lib\0", 14);
  const struct {
    ProcessKey process;
    std::string_view names;
    KnownPath known;
    const char* path;
  } cases[] = {
      {first, same_name, KnownPath::kWhole, "/home/alice/secret/libm.so.6"},
      {first, "", KnownPath::kWhole, "/home/alice/secret/libm.so.6"},
      {later, same_name, KnownPath::kName, "libm.so.6"},
      {other, same_name, KnownPath::kName, "libm.so.6"},
      {other, {"libc.so.6\0lib\0", 14}, KnownPath::kNothing, "unnamed-file"},
      {other, "", KnownPath::kNothing, "unnamed-file"},  // its mount is detached
      {other,
       {"libm.so.6\0secret\0alice\0home\0", 28},
       KnownPath::kWhole,
       "/home/alice/secret/libm.so.6"},
  };
  file->process = first;
  for (const auto& c : cases) {
    MappingView view{};
    view.process = c.process;
    view.id = ++last_id_;
    view.names = c.names;
    table_.add(view, nullptr);  // not opened yet
    table_.add(view, file);
    const ProcessMapping& mapping = table_.find(view.process)->mappings.at(view.id);
    EXPECT_EQ(mapping.known_path, c.known) << c.path;
    EXPECT_EQ(path_of(*mapping.file, mapping.known_path), c.path);
  }
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
  EXPECT_EQ(table_.mappings(), 3U);
  forget_all();
  EXPECT_EQ(table_.mappings(), 0U);
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

}  // namespace
}  // namespace profd
