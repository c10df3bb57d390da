#include "daemon/storage/result_workers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>

#include "tests/daemon/local_parser.h"
#include "tests/returned_memory.h"

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

// Throws when it is moved after `is_armed`.
struct ThrowingJob {
  explicit ThrowingJob(const bool& is_armed) : is_armed_(&is_armed) {}
  ThrowingJob(ThrowingJob&& other) : is_armed_(other.is_armed_) {
    if (*is_armed_) throw std::bad_alloc();
  }
  ThrowingJob& operator=(ThrowingJob&&) = delete;
  ThrowingJob(const ThrowingJob&) = delete;
  ThrowingJob& operator=(const ThrowingJob&) = delete;
  ~ThrowingJob() = default;
  Result<int> operator()(CodeNaming&) { return 1; }

  const bool* is_armed_;
};

TEST_F(ResultWorkersTest, ATurnEndsWithAnException) {
  hold_ = false;
  bool is_armed = false;
  auto failing = workers_.run(1, ThrowingJob(is_armed));
  is_armed = true;
  bool has_thrown = false;
  boost::asio::co_spawn(io_, std::move(failing),
                        [&has_thrown](const std::exception_ptr& problem, const Result<int>&) {
                          has_thrown = problem != nullptr;
                        });
  spawn(io_, job(2, "next"));
  io_.run_for(std::chrono::seconds(30));
  EXPECT_TRUE(has_thrown);
  EXPECT_THAT(ended_, ElementsAre("next"));
}

boost::asio::awaitable<Result<int>> throwing() {
  co_await yield();
  throw std::bad_alloc();
}

boost::asio::awaitable<Result<int>> counting(int& active, int& most) {
  most = std::max(most, ++active);
  for (int i = 0; i < 10; ++i) co_await yield();
  --active;
  co_return 1;
}

boost::asio::awaitable<void> run_in_turn(UserTurns& turns, uid_t user,
                                         boost::asio::awaitable<Result<int>> task, int& ended) {
  auto running = turns.run(user, std::move(task));
  (void)co_await std::move(running);
  ++ended;
}

TEST(UserTurns, OneThatThrowsIsNotActiveAnyMore) {
  boost::asio::io_context io;
  UserTurns turns(io);
  int ended = 0;
  int active = 0;
  int most = 0;
  spawn(io, run_in_turn(turns, 1, throwing(), ended));
  spawn(io, run_in_turn(turns, 1, counting(active, most), ended));
  io.run_one();
  EXPECT_TRUE(turns.has(1));
  io.run_for(std::chrono::seconds(30));
  EXPECT_EQ(ended, 1);
  EXPECT_FALSE(turns.has(1));
}

TEST(UserTurns, AsManyRunAsThereArePlaces) {
  boost::asio::io_context io;
  UserTurns turns(io, 3);
  int ended = 0;
  int active = 0;
  int most = 0;
  for (uid_t i = 0; i < 10; ++i) {
    spawn(io, run_in_turn(turns, i / 2, counting(active, most), ended));
  }
  io.run_for(std::chrono::seconds(30));
  EXPECT_EQ(ended, 10);
  EXPECT_EQ(most, 3);
}

// A worker returns its memory after each job.
TEST_F(ResultWorkersTest, AWorkerThatHadAJobDropsWhatItKeepsOfFiles) {
  const int before = test::times_returned("user-worker");
  const int before_of_root = test::times_returned("store-worker");
  spawn(io_, workers_.trim_names());
  io_.run();
  EXPECT_EQ(test::times_returned("user-worker"), before) << "there is nothing to drop";
  hold_ = false;
  spawn(io_, job(1, "one"));
  io_.restart();
  io_.run();
  ASSERT_TRUE(test::wait_until_returned("user-worker", before + 1));
  spawn(io_, workers_.trim_names());
  io_.restart();
  io_.run();
  EXPECT_TRUE(test::wait_until_returned("user-worker", before + 2));
  EXPECT_EQ(test::times_returned("store-worker"), before_of_root);
}

}  // namespace
}  // namespace profd
