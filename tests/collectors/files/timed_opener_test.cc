#include "collectors/files/timed_opener.h"

#include <chrono>
#include <functional>
#include <future>

#include <gtest/gtest.h>

namespace profd {
namespace {

using std::chrono::steady_clock;

MappedFile named(const char* path) { return {.key = {}, .path = path}; }

// Opens that wait until the test lets them go.
class Gate {
 public:
  [[nodiscard]] std::function<MappedFile()> job() const {
    return [opened = opened_] {
      opened.wait();
      return named("late");
    };
  }
  void open() { gate_.set_value(); }

 private:
  std::promise<void> gate_;
  std::shared_future<void> opened_ = gate_.get_future().share();
};

// Until a thread that was late is back: a hang guard.
bool works_again(TimedOpener& opener) {
  const auto end = steady_clock::now() + std::chrono::seconds(30);
  while (steady_clock::now() < end) {
    if (const auto file = opener.run([] { return named("again"); })) return file->path == "again";
  }
  return false;
}

TEST(TimedOpener, ReturnsWhatWasOpened) {
  TimedOpener opener;
  for (int i = 0; i < 100; ++i) {
    const auto file = opener.run([] { return named("x"); });
    EXPECT_TRUE(!file || file->path == "x");
  }
  EXPECT_TRUE(works_again(opener));
}

TEST(TimedOpener, GoesOnWithoutAFileThatIsLate) {
  TimedOpener opener;
  Gate gate;
  EXPECT_FALSE(opener.run(gate.job()));
  EXPECT_TRUE(works_again(opener)) << "on another thread";
  gate.open();
}

TEST(TimedOpener, FailsAtOnceWhileAllAreLateAndWorksOnceTheyAreBack) {
  TimedOpener opener;
  Gate gate;
  for (std::size_t i = 0; i < TimedOpener::kMaxThreads; ++i) EXPECT_FALSE(opener.run(gate.job()));
  bool ran = false;
  const auto refused = opener.run([&ran] {
    ran = true;
    return named("never");
  });
  EXPECT_FALSE(refused);
  EXPECT_FALSE(ran) << "it was given to nobody";
  gate.open();
  EXPECT_TRUE(works_again(opener));
}

TEST(TimedOpener, OneUserHoldsOneThreadAndRootAsManyAsThereAre) {
  constexpr std::uint32_t kUser = 54'321;
  TimedOpener opener;
  Gate gate;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(opener.run(gate.job(), kUser));
  EXPECT_FALSE(opener.run(gate.job(), kUser + 1));
  EXPECT_FALSE(opener.run(gate.job()));
  EXPECT_TRUE(works_again(opener)) << "the last one is free";
  gate.open();
}

TEST(TimedOpener, MayGoBeforeItsLateThreads) {
  Gate gate;
  {
    TimedOpener opener;
    EXPECT_FALSE(opener.run(gate.job()));
  }
  gate.open();
}

}  // namespace
}  // namespace profd
