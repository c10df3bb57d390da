#include "formats/base/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "formats/base/unique_fd.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

TEST(WholeFile, ReadsTheBytesThatWereWritten) {
  const test::ScratchDirectory scratch;
  const std::string path = scratch.path() / "file";
  const std::string bytes(300'000, 'x');
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(write_all(fd.get(), bytes));
  EXPECT_EQ(read_whole_file(path).value(), bytes);
  EXPECT_EQ(read_whole_file(path, AT_FDCWD, 70'000).value().size(), 70'000U);
  EXPECT_EQ(read_all(fd.get(), "the rest").value(), "") << "the file position is at the end";
}

TEST(WholeFile, ReadsFilesOfTheKernelWhichStateASizeOfZero) {
  EXPECT_EQ(std::filesystem::file_size("/proc/self/maps"), 0U);
  EXPECT_NE(read_whole_file("/proc/self/maps").value().find("[stack]"), std::string::npos);
}

TEST(WholeFile, NamesTheFileInAnError) {
  const auto missing = read_whole_file("/nonexistent/file");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().message, "could not open /nonexistent/file: No such file or directory");
  EXPECT_EQ(read_whole_file("/").error().message, "could not read /: Is a directory");
}

TEST(WholeFile, SetsErrnoWhereTheDiskIsFull) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_FALSE(write_all(full.get(), "x"));
  EXPECT_EQ(errno, ENOSPC);
}

}  // namespace
}  // namespace profd
