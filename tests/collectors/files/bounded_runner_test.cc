#include "collectors/files/bounded_runner.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "tests/collectors/forked.h"

namespace profd {
namespace {

using std::chrono::steady_clock;

constexpr std::uint32_t kRoot = 0;
constexpr std::uint32_t kBlocker = 54'321;

// Calls that block until the test opens the gate.
class Gate {
 public:
  [[nodiscard]] std::function<std::string()> call() const {
    return [opened = opened_] {
      opened.wait();
      return std::string("late");
    };
  }
  void open() { gate_.set_value(); }

 private:
  std::promise<void> gate_;
  std::shared_future<void> opened_ = gate_.get_future().share();
};

// Tries until a call returns in time; the end only keeps the test from hanging.
bool works_again(BoundedRunner& runner) {
  const auto end = steady_clock::now() + std::chrono::seconds(30);
  while (steady_clock::now() < end) {
    const auto result = runner.run(kRoot, [] { return std::string("again"); });
    if (result) return *result == "again";
  }
  return false;
}

TEST(BoundedRunner, ReturnsWhatTheCallReturns) {
  BoundedRunner runner;
  for (int i = 0; i < 100; ++i) {
    const auto result = runner.run(kRoot, [] { return std::string("x"); });
    EXPECT_TRUE(!result || *result == "x");
  }
  EXPECT_TRUE(works_again(runner));
}

TEST(BoundedRunner, ContinuesOnAnotherThreadWhenACallIsLate) {
  BoundedRunner runner;
  Gate gate;
  EXPECT_FALSE(runner.run(kRoot, gate.call()));
  EXPECT_TRUE(works_again(runner)) << "on another thread";
  gate.open();
}

TEST(BoundedRunner, FailsAtOnceWhileAllThreadsAreLateAndWorksOnceTheyAreBack) {
  BoundedRunner runner;
  Gate gate;
  for (std::size_t i = 0; i < BoundedRunner::kMaxThreads; ++i) {
    EXPECT_TRUE(runner.has_thread_for(kRoot));
    EXPECT_FALSE(runner.run(kRoot, gate.call()));
  }
  EXPECT_FALSE(runner.has_thread_for(kRoot));
  bool ran = false;
  const auto refused = runner.run(kRoot, [&ran] {
    ran = true;
    return std::string("never");
  });
  EXPECT_FALSE(refused);
  EXPECT_FALSE(ran) << "no thread got the call";
  gate.open();
  EXPECT_TRUE(works_again(runner));
}

TEST(BoundedRunner, OneUserBlocksOneThreadAndRootAsManyAsThereAre) {
  BoundedRunner runner;
  Gate gate;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(runner.run(kBlocker, gate.call()));
  EXPECT_FALSE(runner.has_thread_for(kBlocker));
  EXPECT_FALSE(runner.run(kBlocker + 1, gate.call()));
  EXPECT_FALSE(runner.run(kRoot, gate.call()));
  EXPECT_TRUE(works_again(runner)) << "the last thread is free";
  gate.open();
}

TEST(BoundedRunner, UsersTogetherBlockHalfOfTheThreads) {
  BoundedRunner runner;
  Gate gate;
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_FALSE(runner.run(kBlocker + i, gate.call()));
  EXPECT_FALSE(runner.has_thread_for(kBlocker + 10));
  for (std::size_t i = BoundedRunner::kMaxThreadsOfUsers; i < BoundedRunner::kMaxThreads; ++i) {
    EXPECT_TRUE(runner.has_thread_for(kRoot));
    EXPECT_FALSE(runner.run(kRoot, gate.call()));
  }
  EXPECT_FALSE(runner.has_thread_for(kRoot));
  gate.open();
}

TEST(BoundedRunner, SubordinateUidsBlockTheThreadOfTheirUser) {
  constexpr std::uint32_t kSubordinate = 600'000;
  const std::string directory = testing::TempDir() + "/profd_runner_" + std::to_string(::getpid());
  std::filesystem::create_directory(directory);
  std::ofstream(directory + "/subuid") << kBlocker << ":" << kSubordinate << ":1000\n";
  BoundedRunner runner(UidOwners(directory + "/subuid", directory + "/passwd"));
  Gate gate;
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_FALSE(runner.run(kSubordinate + i, gate.call()));
  EXPECT_FALSE(runner.has_thread_for(kBlocker));
  EXPECT_TRUE(runner.has_thread_for(kBlocker + 1));
  gate.open();
  std::filesystem::remove_all(directory);
}

// In a process that may not start any thread.
TEST(BoundedRunner, WithoutAThreadACallFails) {
  const int status = test::end_of(test::fork_into([]() noexcept {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0 || ::setresuid(54'321, 54'321, 54'321) != 0) return 2;
    BoundedRunner runner;
    const bool has_run = runner.run(kRoot, [] { return 1; }).has_value();
    return has_run || runner.has_thread_for(kRoot) ? 1 : 0;
  }));
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(BoundedRunner, MayBeDestroyedBeforeItsLateThreadsEnd) {
  Gate gate;
  {
    BoundedRunner runner;
    EXPECT_FALSE(runner.run(kRoot, gate.call()));
  }
  gate.open();
}

TEST(BoundedRunner, DestroysALateResultOnTheLateThread) {
  struct Result {
    explicit Result(std::promise<std::thread::id>& destroyed_on) : on(&destroyed_on) {}
    Result(Result&& other) noexcept : on(std::exchange(other.on, nullptr)) {}
    Result& operator=(Result&&) = delete;
    ~Result() {
      if (on != nullptr) on->set_value(std::this_thread::get_id());
    }
    std::promise<std::thread::id>* on;
  };
  std::promise<std::thread::id> destroyed_on;
  std::promise<void> gate;
  BoundedRunner runner;
  EXPECT_FALSE(runner.run(kRoot, [&destroyed_on, opened = gate.get_future().share()] {
    opened.wait();
    return Result(destroyed_on);
  }));
  gate.set_value();
  EXPECT_NE(destroyed_on.get_future().get(), std::this_thread::get_id());
}

}  // namespace
}  // namespace profd
