#include "daemon/base/thread_priority.h"

#include <sys/resource.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

namespace profd {
namespace {

int niceness() { return ::getpriority(PRIO_PROCESS, 0); }
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

}  // namespace
}  // namespace profd
