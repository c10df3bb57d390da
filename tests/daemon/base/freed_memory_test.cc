#include "daemon/base/freed_memory.h"

#include <sys/resource.h>

#include <thread>

#include <gtest/gtest.h>

namespace profd {
namespace {

TEST(FreedMemory, LeavesTheThreadItsPriority) {
  std::thread([] {
    const int low = ::getpriority(PRIO_PROCESS, 0) + 3;
    ASSERT_EQ(::setpriority(PRIO_PROCESS, 0, low), 0);
    return_freed_memory();
    EXPECT_EQ(::getpriority(PRIO_PROCESS, 0), low);
  }).join();
}

}  // namespace
}  // namespace profd
