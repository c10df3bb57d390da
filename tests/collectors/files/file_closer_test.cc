#include "collectors/files/file_closer.h"

#include <fcntl.h>

#include <atomic>
#include <cstddef>
#include <future>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

namespace profd {
namespace {

// A file whose close takes until open() of the gate.
class SlowFiles {
 public:
  [[nodiscard]] std::shared_ptr<const int> make() {
    return {new int(0), [this](const int* file) {
              delete file;
              gate_.wait();
              closed_on_ = std::this_thread::get_id();
              ++closed_;
            }};
  }
  void open() { promise_.set_value(); }
  [[nodiscard]] std::size_t closed() const { return closed_; }
  [[nodiscard]] std::thread::id closed_on() const { return closed_on_; }

 private:
  std::promise<void> promise_;
  std::shared_future<void> gate_ = promise_.get_future().share();
  std::atomic<std::size_t> closed_ = 0;
  std::atomic<std::thread::id> closed_on_;
};

TEST(FileCloserTest, ASlowCloseDelaysNoCallerAndAllAreClosedAtTheEnd) {
  SlowFiles files;
  {
    FileCloser closer;
    for (int i = 0; i < 3; ++i) closer.close(files.make());
    EXPECT_EQ(files.closed(), 0U);
    EXPECT_EQ(closer.waiting(), 3U);
    files.open();
  }
  EXPECT_EQ(files.closed(), 3U);
  EXPECT_NE(files.closed_on(), std::this_thread::get_id());
}

TEST(FileCloserTest, TheLastReferenceToAFileIsReleasedOnTheThread) {
  SlowFiles files;
  files.open();
  std::shared_ptr<const int> late;
  {
    FileCloser closer;
    late = closer.closed_here(files.make());
    std::shared_ptr<const int> file = closer.closed_here(files.make());
    std::shared_ptr<const int> other = file;
    file.reset();
    EXPECT_EQ(files.closed(), 0U);
    other.reset();
  }
  EXPECT_EQ(files.closed(), 1U);
  EXPECT_NE(files.closed_on(), std::this_thread::get_id());
  late.reset();
  EXPECT_EQ(files.closed(), 2U);
  EXPECT_EQ(files.closed_on(), std::this_thread::get_id()) << "the closer has ended";
}

TEST(FileCloserTest, HasNoRoomWhileTooManyFilesWait) {
  SlowFiles files;
  FileCloser closer;
  for (std::size_t i = 0; i < FileCloser::kMaxWaiting; ++i) {
    EXPECT_TRUE(closer.has_room());
    closer.close(files.make());
  }
  EXPECT_FALSE(closer.has_room());
  files.open();
  while (closer.waiting() != 0) std::this_thread::yield();
  EXPECT_TRUE(closer.has_room());
}

}  // namespace
}  // namespace profd
