#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctl/output/directory.h"
#include "tests/daemon/control/running_server.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OutputDirectoryTest : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  fs::path out_ = directory_.path() / "a" / "out";
};

TEST_F(OutputDirectoryTest, WritesFilesAndMakesTheirDirectories) {
  {
    auto output = OutputDirectory::open(out_, {"a.1.prof", "objects/b.so"});
    ASSERT_TRUE(output) << output.error().message;
    EXPECT_EQ(output->absolute(), fs::canonical(out_));
    EXPECT_TRUE(output->write("a.1.prof", "profile"));
    EXPECT_TRUE(output->write("objects/b.so", std::string(3'000'000, 'b')));
    EXPECT_TRUE(output->write("objects/c.so", ""));
    EXPECT_TRUE(output->sync());
    output->keep();
  }
  EXPECT_EQ(test::read_file(out_ / "a.1.prof"), "profile");
  EXPECT_EQ(test::read_file(out_ / "objects" / "b.so").size(), 3'000'000u);
  EXPECT_EQ(std::distance(fs::directory_iterator(out_), {}), 2) << "no temporary file is left";
  EXPECT_EQ(std::distance(fs::directory_iterator(out_ / "objects"), {}), 2);
}

TEST_F(OutputDirectoryTest, LeavesNothingUnlessKept) {
  {
    auto output = OutputDirectory::open(out_, {});
    ASSERT_TRUE(output);
    ASSERT_TRUE(output->write("a.1.prof", "profile"));
    ASSERT_TRUE(output->write("objects/deep/b.so", "object"));
  }
  EXPECT_TRUE(fs::is_empty(directory_.path()));
}

TEST_F(OutputDirectoryTest, LeavesFilesThatExistedBefore) {
  fs::create_directories(out_ / "objects");
  std::ofstream(out_ / "objects" / "mine.so") << "precious";
  {
    auto output = OutputDirectory::open(out_, {});
    ASSERT_TRUE(output);
    ASSERT_TRUE(output->write("objects/b.so", "object"));
  }
  EXPECT_EQ(test::read_file(out_ / "objects" / "mine.so"), "precious");
  EXPECT_FALSE(fs::exists(out_ / "objects" / "b.so"));
}

TEST_F(OutputDirectoryTest, RefusesAnExistingFileBeforeAnyChange) {
  fs::create_directories(out_);
  for (const char* kind : {"file", "dangling link"}) {
    if (std::string(kind) == "file") {
      std::ofstream(out_ / "b.1.prof") << "precious";
    } else {
      fs::create_symlink("/nonexistent/target", out_ / "b.1.prof");
    }
    const auto output = OutputDirectory::open(out_, {"a.1.prof", "b.1.prof"});
    ASSERT_FALSE(output) << kind;
    EXPECT_EQ(output.error().code, ErrorCode::kIo);
    EXPECT_THAT(output.error().message, HasSubstr("b.1.prof"));
    fs::remove(out_ / "b.1.prof");
    EXPECT_TRUE(fs::is_empty(out_));
  }
}

TEST_F(OutputDirectoryTest, NeverReplacesAFileThatWasMadeMeanwhile) {
  auto output = OutputDirectory::open(out_, {"a.1.prof"});
  ASSERT_TRUE(output);
  std::ofstream(out_ / "a.1.prof") << "precious";
  EXPECT_FALSE(output->write("a.1.prof", "profile"));
  EXPECT_EQ(test::read_file(out_ / "a.1.prof"), "precious");
  EXPECT_EQ(std::distance(fs::directory_iterator(out_), {}), 1) << "no temporary file is left";
}

TEST_F(OutputDirectoryTest, DoesNotFollowALinkInsteadOfADirectory) {
  fs::create_directories(out_);
  fs::create_directories(directory_.path() / "elsewhere");
  fs::create_directory_symlink(directory_.path() / "elsewhere", out_ / "objects");
  auto output = OutputDirectory::open(out_, {"objects/b.so"});
  ASSERT_TRUE(output);
  EXPECT_FALSE(output->write("objects/b.so", "object"));
  EXPECT_TRUE(fs::is_empty(directory_.path() / "elsewhere"));
}

TEST_F(OutputDirectoryTest, AFullDiskIsNamedAndLeavesNothing) {
  ASSERT_EQ(::mount("none", directory_.path().c_str(), "tmpfs", 0, "size=16k"), 0) << "needs root";
  {
    auto output = OutputDirectory::open(out_, {});
    ASSERT_TRUE(output);
    EXPECT_TRUE(output->write("a.1.prof", "fits"));
    const auto written = output->write("b.1.prof", std::string(1'000'000, 'x'));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, ErrorCode::kIo);
    EXPECT_THAT(written.error().message, HasSubstr("b.1.prof: No space left"));
    EXPECT_THAT(written.error().hint, HasSubstr("again"));
  }
  EXPECT_TRUE(fs::is_empty(directory_.path()));
  EXPECT_EQ(::umount(directory_.path().c_str()), 0);
}

TEST_F(OutputDirectoryTest, CheckRefusesAPathThatCanNotBeWrittenTo) {
  EXPECT_TRUE(OutputDirectory::check(out_)) << "absent is fine";
  fs::create_directories(out_);
  EXPECT_TRUE(OutputDirectory::check(out_)) << "empty is fine";
  std::ofstream(out_ / "other") << "x";
  EXPECT_TRUE(OutputDirectory::check(out_)) << "other files are fine";
  EXPECT_FALSE(OutputDirectory::check(out_ / "other")) << "a file";
  EXPECT_FALSE(OutputDirectory::check(out_ / "other" / "below")) << "below a file";
  std::ofstream(out_ / "session.json") << "{}";
  const auto checked = OutputDirectory::check(out_);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kIo);
  EXPECT_THAT(checked.error().message, HasSubstr("session.json"));
}

TEST_F(OutputDirectoryTest, ADirectoryThatCanNotBeMadeAsksForAnotherOne) {
  const auto output = OutputDirectory::open("/proc/profd-test", {});
  ASSERT_FALSE(output);
  EXPECT_THAT(output.error().message, HasSubstr("could not make /proc/profd-test"));
  EXPECT_THAT(output.error().hint, HasSubstr("another directory"));
}

TEST_F(OutputDirectoryTest, ADirectoryOfAnotherUserIsNotPermitted) {
  fs::permissions(directory_.path(), fs::perms::owner_all);
  ASSERT_EQ(::seteuid(4711), 0) << "needs root";
  const auto checked = OutputDirectory::check(out_);
  const auto output = OutputDirectory::open(out_, {});
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(checked.error().hint, HasSubstr("another directory"));
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, ErrorCode::kPermissionDenied);
}

TEST_F(OutputDirectoryTest, CheckRefusesAPathThatCanNotBeMade) {
  EXPECT_TRUE(OutputDirectory::check(out_ / "deep" / "below"));
  ASSERT_EQ(::mount("none", directory_.path().c_str(), "tmpfs", MS_RDONLY, ""), 0) << "needs root";
  for (const fs::path& path : {out_, out_ / "deep" / "below"}) {
    const auto checked = OutputDirectory::check(path);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::kIo);
    EXPECT_THAT(checked.error().message, HasSubstr("could not make " + path.string()));
    EXPECT_THAT(checked.error().message, HasSubstr("Read-only"));
  }
  EXPECT_EQ(::umount(directory_.path().c_str()), 0);
}

}  // namespace
}  // namespace profd
