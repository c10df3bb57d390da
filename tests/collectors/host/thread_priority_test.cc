#include "collectors/host/thread_priority.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

namespace profd {
namespace {

int niceness() { return ::getpriority(PRIO_PROCESS, 0); }
long disk_priority() { return ::syscall(SYS_ioprio_get, 1 /* of a thread */, 0); }
int niceness_of_io_thread() { return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::getpid())); }

TEST(ThreadPriority, IsThatOfTheIoThreadForAWhile) {
  std::thread([] {
    const int low = niceness_of_io_thread() + 3;
    ASSERT_EQ(::setpriority(PRIO_PROCESS, 0, low), 0);
    {
      const PriorityOfIoThread outer;
      EXPECT_EQ(niceness(), niceness_of_io_thread());
      { const PriorityOfIoThread inner; }
      EXPECT_EQ(niceness(), niceness_of_io_thread()) << "an inner one has changed nothing";
    }
    EXPECT_EQ(niceness(), low);
  }).join();
}

TEST(ThreadPriority, IsNotLowered) {
  std::thread([] {
    const int high = niceness_of_io_thread() - 3;
    ASSERT_EQ(::setpriority(PRIO_PROCESS, 0, high), 0);
    const PriorityOfIoThread same;
    EXPECT_EQ(niceness(), high);
  }).join();
}

// Of a thread with the usual priority, as a daemon is started.
TEST(ThreadPriority, OfWorkersIsLowerThanThatOfTheIoThread) {
  std::thread([] {
    ASSERT_EQ(::setpriority(PRIO_PROCESS, 0, 0), 0);
    raise_priority_of_io_thread();
    EXPECT_EQ(niceness(), 0) << "it was not raised before";
    raise_priority();
    const int of_all = niceness();
    EXPECT_LT(of_all, 0);
    raise_priority_of_io_thread();
    EXPECT_LT(niceness(), of_all);
    std::thread([of_all] {
      lower_priority_of_worker();
      EXPECT_EQ(niceness(), of_all);
    }).join();
  }).join();
}

TEST(ThreadPriority, IsLowForAWhile) {
  std::thread([] {
    ASSERT_EQ(::setpriority(PRIO_PROCESS, 0, 0), 0);
    raise_priority();
    const int usual = niceness();
    const long of_disk = disk_priority();
    {
      const LowPriority low;
      EXPECT_GT(niceness(), 0);
      EXPECT_NE(disk_priority(), of_disk);
    }
    EXPECT_EQ(niceness(), usual);
    EXPECT_EQ(disk_priority(), of_disk);
  }).join();
}

TEST(ThreadPriority, IsNotLowWhereItWasNotRaised) {
  std::thread([] {
    ASSERT_EQ(::setpriority(PRIO_PROCESS, 0, 0), 0);
    const LowPriority low;
    EXPECT_EQ(niceness(), 0);
  }).join();
}

TEST(ThreadPriority, ThatSomebodyChoseStays) {
  std::thread([] {
    ASSERT_EQ(::setpriority(PRIO_PROCESS, 0, 3), 0);
    raise_priority();
    raise_priority_of_io_thread();
    lower_priority_of_worker();
    EXPECT_EQ(niceness(), 3);
  }).join();
}

}  // namespace
}  // namespace profd
