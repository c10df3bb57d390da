// Outputs that are no regular files.

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <string>

#include <gmock/gmock.h>

#include "ctl/output/file.h"
#include "formats/base/unique_fd.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

class OutputPipeTest : public testing::Test {
 protected:
  OutputPipeTest() { EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0); }

  test::ScratchDirectory directory_;
  std::string path_ = directory_.path() / "pipe";
};

TEST_F(OutputPipeTest, WithoutAReaderIsAnErrorAtOnce) {
  const auto file = OutputFile::open(path_, ExistingFile::kRefused);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message, "nobody reads " + path_);
}

TEST_F(OutputPipeTest, TheReaderGetsWhatIsWrittenAndNoticesNoCheck) {
  const UniqueFd reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_TRUE(OutputFile::check(path_, ExistingFile::kRefused));
  char bytes[8];
  EXPECT_EQ(::read(reader.get(), bytes, sizeof bytes), 0) << "nobody has opened it";
  auto file = OutputFile::open(path_, ExistingFile::kRefused);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(::read(reader.get(), bytes, sizeof bytes), -1) << "there is a writer";
  file->write("profile");
  EXPECT_TRUE(file->commit());
  EXPECT_EQ(::read(reader.get(), bytes, sizeof bytes), 7);
}

// As they are while a recording waits for its end.
TEST_F(OutputPipeTest, SignalsEndAProgramThatWritesToIt) {
  const UniqueFd reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const auto be_ended = [this] {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    auto file = OutputFile::open(path_, ExistingFile::kRefused);
    ::raise(SIGTERM);
  };
  EXPECT_EXIT(be_ended(), testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace profd
