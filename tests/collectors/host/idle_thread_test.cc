#include "collectors/host/idle_thread.h"

#include <sys/prctl.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "collectors/files/bounded_runner.h"
#include "collectors/files/file_closer.h"
#include "tests/returned_memory.h"

namespace profd {
namespace {

TEST(IdleThreadTest, AThreadThatWaitsReturnsItsMemoryOnceAndWakesUp) {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_ready = false;
  std::thread waits([&] {
    ::prctl(PR_SET_NAME, "waits");
    std::unique_lock lock(mutex);
    wait_and_return_memory(changed, lock, [&is_ready] { return is_ready; });
    EXPECT_TRUE(is_ready);
    EXPECT_TRUE(lock.owns_lock());
  });
  EXPECT_TRUE(test::wait_until_returned("waits", 1));
  {
    const std::lock_guard lock(mutex);
    is_ready = true;
  }
  changed.notify_one();
  waits.join();
  EXPECT_EQ(test::times_returned("waits"), 1);
}

TEST(IdleThreadTest, AThreadThatHasWorkKeepsItsMemory) {
  std::thread([] {
    ::prctl(PR_SET_NAME, "works");
    std::mutex mutex;
    std::condition_variable changed;
    std::unique_lock lock(mutex);
    wait_and_return_memory(changed, lock, [] { return true; });
  }).join();
  EXPECT_EQ(test::times_returned("works"), 0);
}

TEST(IdleThreadTest, TheCloserOfFilesReturnsItsMemory) {
  const int before = test::times_returned("file-closer");
  FileCloser closer;
  closer.close(std::make_shared<const int>(0));
  EXPECT_TRUE(test::wait_until_returned("file-closer", before + 1));
}

TEST(IdleThreadTest, AThreadOfBlockingCallsReturnsItsMemory) {
  const int before = test::times_returned("blocking-call");
  BoundedRunner runner;
  (void)runner.run(0, [] { return 1; });
  EXPECT_TRUE(test::wait_until_returned("blocking-call", before + 1));
}

}  // namespace
}  // namespace profd
