#include "collectors/bpf/kernel_calls.h"

#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

TEST(KernelCallsTest, AreMadeInOrderOnAnotherThread) {
  KernelCalls calls;
  std::vector<int> order;
  std::vector<std::future<std::thread::id>> threads;
  for (int i = 0; i < 3; ++i) {
    threads.push_back(calls.run([&order, i] {
      order.push_back(i);
      return std::this_thread::get_id();
    }));
  }
  const std::thread::id first = threads[0].get();
  EXPECT_NE(first, std::this_thread::get_id());
  EXPECT_EQ(threads[1].get(), first);
  EXPECT_EQ(threads[2].get(), first);
  EXPECT_EQ(order, (std::vector{0, 1, 2}));
}

TEST(KernelCallsTest, ACallThatWaitsDelaysNobodyWhoAsksForIt) {
  std::binary_semaphore end{0};
  KernelCalls calls;
  auto slow = calls.run([&end] {
    end.acquire();
    return 1;
  });
  EXPECT_FALSE(KernelCalls::has_returned(slow));
  EXPECT_FALSE(KernelCalls::has_returned(std::future<int>()));
  end.release();
  slow.wait();
  EXPECT_TRUE(KernelCalls::has_returned(slow));
  EXPECT_EQ(slow.get(), 1);
}

TEST(KernelCallsTest, ACallIsDestroyedOnTheThreadAlsoWhereNobodyWantsItsResult) {
  std::thread::id destroyed_on;
  {
    KernelCalls calls;
    auto file = std::shared_ptr<int>(new int, [&destroyed_on](const int* value) {
      destroyed_on = std::this_thread::get_id();
      delete value;
    });
    (void)calls.run([file = std::move(file)]() mutable { file.reset(); });
  }
  EXPECT_NE(destroyed_on, std::thread::id());
  EXPECT_NE(destroyed_on, std::this_thread::get_id());
}

TEST(KernelCallsTest, AllAreMadeBeforeTheEnd) {
  int made = 0;
  {
    std::binary_semaphore begin{0};
    KernelCalls calls;
    (void)calls.run([&begin] { begin.acquire(); });
    for (int i = 0; i < 10; ++i) (void)calls.run([&made] { ++made; });
    begin.release();
  }
  EXPECT_EQ(made, 10);
}

}  // namespace
}  // namespace profd
