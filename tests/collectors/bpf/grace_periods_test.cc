#include "collectors/bpf/grace_periods.h"

#include <chrono>
#include <semaphore>
#include <thread>

#include <gtest/gtest.h>

namespace profd {
namespace {

// A grace period ends when the test says so.
class GracePeriodsTest : public ::testing::Test {
 protected:
  ~GracePeriodsTest() override { end_.release(100); }

  bool comes_to_be_over(std::uint64_t number) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!periods_.is_over(number) && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return periods_.is_over(number);
  }

  std::counting_semaphore<> began_{0};
  std::counting_semaphore<> end_{0};
  GracePeriods periods_{[this] {
    began_.release();
    end_.acquire();
  }};
};

TEST_F(GracePeriodsTest, AreOverWhenTheWaitHasReturned) {
  const std::uint64_t number = periods_.begin();
  began_.acquire();
  EXPECT_FALSE(periods_.is_over(number));
  end_.release();
  EXPECT_TRUE(comes_to_be_over(number));
}

TEST_F(GracePeriodsTest, ThatBeginDuringAWaitNeedAnotherOneAndShareIt) {
  const std::uint64_t first = periods_.begin();
  began_.acquire();
  const std::uint64_t second = periods_.begin();
  const std::uint64_t third = periods_.begin();
  end_.release();
  EXPECT_TRUE(comes_to_be_over(first));
  began_.acquire();
  EXPECT_FALSE(periods_.is_over(second));
  end_.release();
  EXPECT_TRUE(comes_to_be_over(third));
  EXPECT_FALSE(began_.try_acquire());
}

}  // namespace
}  // namespace profd
