#include "daemon/storage/worker.h"

#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "daemon/base/coroutines.h"
#include "tests/returned_memory.h"

namespace profd {
namespace {

boost::asio::awaitable<void> do_nothing(Worker& worker) {
  auto nothing = []() -> Result<int> { return 1; };
  auto running = worker.run(std::move(nothing));
  (void)co_await std::move(running);
}

// What a job destroys, the io thread has allocated.
TEST(WorkerTest, AWorkerReturnsItsMemoryWhenNoJobWaits) {
  boost::asio::io_context io;
  {
    Worker worker("returns-memory");
    spawn(io, do_nothing(worker));
    io.run();
  }
  EXPECT_EQ(test::times_returned("returns-memory"), 1);
}

}  // namespace
}  // namespace profd
