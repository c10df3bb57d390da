// The loading thread with its real parser, on ELF files and on other files.

#include "collectors/unwinding/table_loader.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/formats/python/made_python.h"

namespace profd {
namespace {

namespace fs = std::filesystem;

class TableLoaderTest : public testing::Test {
 protected:
  TableLoaderTest() {
    std::string pattern = (fs::temp_directory_path() / "profd-loader-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  ~TableLoaderTest() override {
    loader_.reset();
    fs::remove_all(directory_);
  }
  void SetUp() override { start(); }
  void start() {
    loader_.reset();
    auto loader =
        TableLoader::start({.cache_directory = directory_ / "unwind",
                            .debug_root = directory_ / "debug",
                            .owners = UidOwners(directory_ / "subuid", directory_ / "passwd")});
    ASSERT_TRUE(loader) << loader.error().message;
    loader_ = std::move(*loader);
  }

  static std::shared_ptr<const MappedFile> opened(const fs::path& path, std::uint64_t inode,
                                                  std::uint32_t owner = 0) {
    return std::make_shared<const MappedFile>(
        MappedFile{.key = {.inode = inode},
                   .path = path,
                   .fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)),
                   .owner = owner});
  }
  LoadResult load(const fs::path& path) {
    EXPECT_TRUE(loader_->request(opened(path, 1), TableLoader::Urgency::kStacksWait));
    return next();
  }
  LoadResult next() {
    pollfd wake{.fd = loader_->wake_fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&wake, 1, 60'000), 1);
    auto results = loader_->take();
    EXPECT_EQ(results.size(), 1U);
    return results.empty() ? LoadResult{} : std::move(results.front());
  }
  [[nodiscard]] std::size_t cached() const {
    std::size_t tables = 0;
    for (const auto& entry : fs::directory_iterator(directory_ / "unwind")) {
      tables += entry.path().extension() == ".rows";
    }
    return tables;
  }

  fs::path directory_;
  std::unique_ptr<TableLoader> loader_;
};

// Results that are not taken stop the thread, so at most one more is made before the last of these
// are queued.
TEST_F(TableLoaderTest, FilesOfOneOwnerDoNotDelayOthers) {
  constexpr std::uint64_t kRoots = 100;
  constexpr std::uint64_t kOthers = 200;
  const auto request = [this](std::uint64_t inode, std::uint32_t owner) {
    return loader_->request(opened("/proc/self/exe", inode, owner),
                            TableLoader::Urgency::kStacksWait);
  };
  for (std::uint64_t i = 1; i <= 30; ++i) ASSERT_TRUE(request(i, 1000));
  ASSERT_TRUE(request(kOthers, 2000));
  ASSERT_TRUE(request(kRoots, 0));
  std::vector<std::uint64_t> order;
  while (order.size() < 32) {
    pollfd wake{.fd = loader_->wake_fd(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&wake, 1, 60'000), 1);
    for (const LoadResult& result : loader_->take()) order.push_back(result.file.inode);
  }
  const auto place_of = [&](std::uint64_t inode) {
    return static_cast<std::size_t>(std::ranges::find(order, inode) - order.begin());
  };
  EXPECT_LE(place_of(kRoots), TableLoader::kMaxReady + 1);
  EXPECT_LE(place_of(kOthers), TableLoader::kMaxReady + 2);
}

TEST_F(TableLoaderTest, AnOwnerHasAtMostItsShareOfTheQueue) {
  std::size_t taken = 0;
  for (std::uint64_t i = 0; i < TableLoader::kMaxQueuedOfUser + 50; ++i) {
    taken += loader_->request(opened("/proc/self/exe", i, 1000), TableLoader::Urgency::kStacksWait);
  }
  EXPECT_LE(taken, TableLoader::kMaxQueuedOfUser + TableLoader::kMaxReady + 1);
  EXPECT_TRUE(loader_->request(opened("/proc/self/exe", 5000), TableLoader::Urgency::kStacksWait));
}

TEST_F(TableLoaderTest, SubordinateUidsHaveTheShareOfTheirUser) {
  std::ofstream(directory_ / "subuid") << "1000:100000:65536\n";
  start();
  std::size_t taken = 0;
  for (std::uint32_t uid = 0; uid < 16; ++uid) {
    const auto file = opened("/etc/passwd", 1, 100'000 + uid);
    for (std::size_t i = 0; i < TableLoader::kMaxQueuedOfUser; ++i) {
      taken += loader_->request(file, TableLoader::Urgency::kStacksWait);
    }
  }
  EXPECT_GE(taken, TableLoader::kMaxQueuedOfUser);
  EXPECT_LE(taken, TableLoader::kMaxQueuedOfUser + TableLoader::kMaxReady + 1);
}

TEST_F(TableLoaderTest, UsersTogetherHaveHalfOfTheQueueAndNeverKeepRootsFilesOut) {
  const auto root = opened("/etc/passwd", 1);
  for (const auto urgency :
       {TableLoader::Urgency::kBackground, TableLoader::Urgency::kStacksWait}) {
    std::size_t taken = 0;
    for (std::uint32_t uid = 1000; uid < 1020; ++uid) {
      const auto file = opened("/etc/passwd", uid, uid);
      for (std::size_t i = 0; i < TableLoader::kMaxQueuedOfUser; ++i) {
        taken += loader_->request(file, urgency);
      }
    }
    EXPECT_GE(taken, TableLoader::kMaxQueuedOfUsers);
    EXPECT_LE(taken, TableLoader::kMaxQueuedOfUsers + TableLoader::kMaxReady + 1);
  }
  // Nor by files that become urgent later.
  for (std::uint32_t uid = 1000; uid < 1020; ++uid) {
    for (std::size_t i = 0; i < TableLoader::kMaxQueuedOfUser; ++i) {
      loader_->prioritize({.inode = uid});
    }
  }
  for (std::size_t i = 0; i < TableLoader::kMaxQueued / 2; ++i) {
    EXPECT_TRUE(loader_->request(root, TableLoader::Urgency::kStacksWait));
  }
}

TEST_F(TableLoaderTest, ACopyHasTheSameContentAndIsStoredOnce) {
  fs::copy_file("/proc/self/exe", directory_ / "copy");
  const LoadResult original = load("/proc/self/exe");
  ASSERT_TRUE(original.table);
  EXPECT_GT(original.table->view.header.row_count, 1000U);
  const LoadResult copy = load(directory_ / "copy");
  ASSERT_TRUE(copy.table);
  EXPECT_EQ(copy.content, original.content);
  EXPECT_EQ(copy.table->bytes, original.table->bytes);
  EXPECT_EQ(cached(), 1U);
}

TEST_F(TableLoaderTest, TheInterpreterOfAFileComesWithItsTable) {
  const fs::path python = directory_ / "python";
  std::ofstream(python, std::ios::binary) << test::MadePython(11).bytes();
  const LoadResult made = load(python);
  EXPECT_EQ(made.runtime.verdict, RuntimeVerdict::kKnown);
  EXPECT_EQ(made.runtime.version, 0x030b02U);
  EXPECT_EQ(made.runtime.runtime.code_type, test::MadePython::kBase + test::MadePython::kCodeType);
  const LoadResult kept = load(python);  // its rows are those in the cache
  EXPECT_EQ(kept.runtime.verdict, RuntimeVerdict::kKnown);
  EXPECT_EQ(load("/proc/self/exe").runtime.verdict, RuntimeVerdict::kNone);
  EXPECT_EQ(load("/etc/passwd").runtime.verdict, RuntimeVerdict::kNone);
  EXPECT_EQ(loader_->parser_restarts(), 0U);
}

TEST_F(TableLoaderTest, EqualFilesOfDifferentOwnersHaveDifferentContent) {
  const fs::path copy = directory_ / "copy";
  fs::copy_file("/proc/self/exe", copy);
  ASSERT_EQ(::chown(copy.c_str(), 1000, 1000), 0);
  EXPECT_NE(load(copy).content, load("/proc/self/exe").content);
}

// An offset inside .eh_frame, which linkers put behind .eh_frame_hdr.
std::streamoff offset_in_eh_frame(int fd) {
  Elf64_Ehdr header;
  Elf64_Phdr segment{};
  EXPECT_EQ(::pread(fd, &header, sizeof header, 0), ssize_t{sizeof header});
  for (std::size_t i = 0; segment.p_type != PT_GNU_EH_FRAME && i < header.e_phnum; ++i) {
    const auto at = static_cast<off_t>(header.e_phoff + i * sizeof segment);
    EXPECT_EQ(::pread(fd, &segment, sizeof segment, at), ssize_t{sizeof segment});
  }
  return static_cast<std::streamoff>(segment.p_offset + segment.p_filesz + 5000);
}

TEST_F(TableLoaderTest, DifferentUnwindDataUnderOneBuildIdIsDifferentContent) {
  const fs::path copy = directory_ / "copy";
  fs::copy_file("/proc/self/exe", copy);
  const auto before = opened(copy, 1);
  const std::string content = load(copy).content;
  std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
  const std::streamoff at = offset_in_eh_frame(before->fd.get());
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1));
  file.close();
  const LoadResult after = load(copy);
  EXPECT_FALSE(after.content.empty());
  EXPECT_NE(after.content, content);
}

TEST_F(TableLoaderTest, AfterARestartTheTableIsReadFromTheCache) {
  const LoadResult made = load("/proc/self/exe");
  start();
  const LoadResult kept = load("/proc/self/exe");
  ASSERT_TRUE(kept.table);
  EXPECT_EQ(kept.content, made.content);
  EXPECT_EQ(kept.table->bytes, made.table->bytes);
}

TEST_F(TableLoaderTest, AFileThatIsNotElfIsRefusedWithItsReason) {
  std::ofstream(directory_ / "text") << std::string(10'000, 'x');
  std::ofstream(directory_ / "empty");
  EXPECT_EQ(load(directory_ / "text").refusal, TableRefusal::kMalformed);
  EXPECT_EQ(load(directory_ / "empty").refusal, TableRefusal::kMalformed);
  EXPECT_FALSE(load(directory_ / "text").table);
  EXPECT_EQ(loader_->parser_restarts(), 0U);
  EXPECT_EQ(cached(), 0U);
}

TEST_F(TableLoaderTest, EveryRequestIsAnsweredAndResultsAreLimited) {
  constexpr std::uint64_t kFiles = 40;
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    ASSERT_TRUE(
        loader_->request(opened("/etc/passwd", i), i % 2 == 0 ? TableLoader::Urgency::kBackground
                                                              : TableLoader::Urgency::kStacksWait));
  }
  std::map<std::uint64_t, int> answers;
  while (answers.size() < kFiles) {
    pollfd wake{.fd = loader_->wake_fd(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&wake, 1, 60'000), 1);
    ::usleep(20'000);
    const auto results = loader_->take();
    EXPECT_LE(results.size(), TableLoader::kMaxReady);
    for (const LoadResult& result : results) ++answers[result.file.inode];
  }
  for (const auto& [inode, count] : answers) EXPECT_EQ(count, 1);
}

TEST_F(TableLoaderTest, TheQueueIsLimited) {
  const auto file = opened("/etc/passwd", 1);
  std::size_t taken = 0;
  while (taken <= TableLoader::kMaxQueued + TableLoader::kMaxReady + 1 &&
         loader_->request(file, TableLoader::Urgency::kBackground)) {
    ++taken;
  }
  EXPECT_GE(taken, TableLoader::kMaxQueued);
  EXPECT_LE(taken, TableLoader::kMaxQueued + TableLoader::kMaxReady + 1);
  // Urgent files have their own queue.
  EXPECT_TRUE(loader_->request(file, TableLoader::Urgency::kStacksWait));
}

// What makes the table may hold the last reference to much memory.
TEST_F(TableLoaderTest, ATableOfJitCodeIsMadeOnTheLoadingThread) {
  std::thread::id maker;
  auto rows = std::make_shared<std::vector<std::uint64_t>>(1000);
  const std::weak_ptr<std::vector<std::uint64_t>> source = rows;
  loader_->request_jit_code({.inode = 2}, 1000, "jit", [&maker, rows = std::move(rows)]() mutable {
    maker = std::this_thread::get_id();
    const auto own = std::exchange(rows, nullptr);
    UnwindTableWriter writer;
    profd_rule rule{};
    rule.kind = PROFD_RULE_END;
    for (std::size_t i = 0; i < own->size(); ++i) {
      writer.add({.offset = 8 * i, .rule = i % 2 == 0 ? rule : profd_rule{}});
    }
    return writer.encode();
  });
  const LoadResult result = next();
  EXPECT_EQ(result.file.inode, 2U);
  EXPECT_EQ(result.content, "jit");
  ASSERT_TRUE(result.table);
  EXPECT_EQ(result.table->view.header.row_count, 1000U + 1);
  EXPECT_TRUE(result.encode) << "its end reports that the table is installed";
  EXPECT_TRUE(source.expired());
  EXPECT_NE(maker, std::this_thread::get_id());
  EXPECT_EQ(cached(), 0U);
}

TEST_F(TableLoaderTest, ATableOfJitCodeThatCannotBeMadeIsRefused) {
  loader_->request_jit_code({.inode = 2}, 1000, "jit",
                            [] { return fail(ErrorCode::kTooLarge, "too many rows"); });
  EXPECT_EQ(next().refusal, TableRefusal::kTooLarge);
  loader_->request_jit_code({.inode = 2}, 1000, "jit", [] { return std::string("no table"); });
  const LoadResult result = next();
  EXPECT_FALSE(result.table);
  EXPECT_EQ(result.refusal, TableRefusal::kMalformed);
}

// Gives a file new modification times until it is destroyed.
class Changing {
 public:
  explicit Changing(const fs::path& path)
      : thread_([path](const std::stop_token& stop) {
          for (long time = 1; !stop.stop_requested(); ++time) {
            const timespec times[] = {{.tv_sec = time, .tv_nsec = 0},
                                      {.tv_sec = time, .tv_nsec = 0}};
            ::utimensat(AT_FDCWD, path.c_str(), times, 0);
          }
        }) {}

 private:
  std::jthread thread_;
};

TEST_F(TableLoaderTest, AFileThatChangesWhileItIsReadGivesNoTable) {
  const fs::path copy = directory_ / "copy";
  fs::copy_file("/proc/self/exe", copy);
  const Changing changing(copy);
  LoadResult result;
  // On a busy host, a whole load may pass without a change.
  for (int i = 0; i < 20 && result.refusal != TableRefusal::kChanged; ++i) {
    for (const auto& entry : fs::directory_iterator(directory_ / "unwind")) fs::remove(entry);
    result = load(copy);
  }
  EXPECT_EQ(result.refusal, TableRefusal::kChanged);
  EXPECT_FALSE(result.table);
  EXPECT_EQ(cached(), 0U);
}

}  // namespace
}  // namespace profd
