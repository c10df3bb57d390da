#include "daemon/storage/result_workers.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>

#include "tests/daemon/local_parser.h"

namespace profd {
namespace {

using testing::ElementsAre;
using std::chrono_literals::operator""ms;

class ResultWorkersTest : public testing::Test {
 protected:
  // Counts the job's name when it begins; it ends when `hold_` is false.
  boost::asio::awaitable<void> job(std::optional<uid_t> user, std::string name) {
    auto work = [this, name](CodeNaming&) -> Result<int> {
      while (hold_) std::this_thread::sleep_for(1ms);
      return static_cast<int>(name.size());
    };
    auto running = workers_.run(user, std::move(work));
    const Result<int> done = co_await std::move(running);
    if (done) ended_.push_back(name);
  }

  boost::asio::io_context io_;
  ResultWorkers workers_{io_, std::make_unique<test::LocalParser>(),
                         std::make_unique<test::LocalParser>()};
  std::atomic<bool> hold_ = true;
  std::vector<std::string> ended_;
};

TEST_F(ResultWorkersTest, UsersTakeTurns) {
  for (const char* name : {"a1", "a2", "a3"}) spawn(io_, job(1, name));
  for (const char* name : {"b1", "b2"}) spawn(io_, job(2, name));
  spawn(io_, job(3, "c1"));
  io_.run_for(50ms);
  hold_ = false;
  io_.run();
  EXPECT_THAT(ended_, ElementsAre("a1", "b1", "c1", "a2", "b2", "a3"));
}

TEST_F(ResultWorkersTest, APrivilegedJobDoesNotWaitForUsers) {
  for (int i = 0; i < 4; ++i) spawn(io_, job(1, "user"));
  io_.run_for(20ms);
  bool done = false;
  auto ask = [](ResultWorkers& workers, bool& ended) -> boost::asio::awaitable<void> {
    auto nothing = [](CodeNaming&) -> Result<int> { return 1; };
    auto running = workers.run(std::nullopt, std::move(nothing));
    const Result<int> value = co_await std::move(running);
    ended = value.has_value();
  };
  spawn(io_, ask(workers_, done));
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done && std::chrono::steady_clock::now() < limit) io_.run_one_for(10ms);
  EXPECT_TRUE(done);
  EXPECT_TRUE(ended_.empty());
  hold_ = false;
  io_.run();
  EXPECT_EQ(ended_.size(), 4U);
}

}  // namespace
}  // namespace profd
