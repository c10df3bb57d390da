#include "collectors/sampling/hook.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <atomic>
#include <semaphore>
#include <thread>

#include <gtest/gtest.h>

namespace profd {
namespace {

using std::chrono_literals::operator""s;

// Attaches a descriptor, when the test says so.
class HookTest : public ::testing::Test {
 protected:
  ~HookTest() override { may_attach_.release(100); }

  Result<Hook::Links> attach() {
    may_attach_.acquire();
    thread_ = std::this_thread::get_id();
    ++attached_;
    if (fails_) return fail(ErrorCode::kUnsupported, "the kernel has no such tracepoint");
    Hook::Links links;
    links.emplace_back(::eventfd(0, EFD_CLOEXEC));
    fd_ = links.back().get();
    return links;
  }

  Result<bool> need_until_attached() {
    may_attach_.release();
    for (;;) {
      const auto attached = hook_.need();
      if (!attached || *attached) return attached;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // What the thread was asked for until now is done.
  void catch_up() {
    calls_.run([] {}).wait();
  }
  [[nodiscard]] bool is_attached() {
    catch_up();
    return fd_ >= 0 && ::fcntl(fd_, F_GETFD) >= 0;
  }

  std::counting_semaphore<> may_attach_{0};
  std::atomic<bool> fails_ = false;
  std::atomic<int> attached_ = 0;
  std::atomic<int> fd_ = -1;
  std::thread::id thread_;
  KernelCalls calls_;
  Hook hook_{calls_, [this] { return attach(); }};
  const Hook::Clock::time_point now_ = Hook::Clock::now();
};

TEST_F(HookTest, IsAttachedOnAnotherThreadWhichNobodyWaitsFor) {
  EXPECT_FALSE(hook_.need().value());
  EXPECT_FALSE(hook_.need().value());
  EXPECT_TRUE(need_until_attached().value());
  EXPECT_NE(thread_, std::this_thread::get_id());
  EXPECT_EQ(attached_, 1);
}

TEST_F(HookTest, IsDetachedAMinuteAfterTheLastNeed) {
  EXPECT_TRUE(need_until_attached().value());
  hook_.detach_if_unneeded(now_ + 3600s);
  EXPECT_TRUE(is_attached()) << "it is needed";
  hook_.release(now_);
  hook_.release(now_ + 30s);  // it was not needed in between
  hook_.detach_if_unneeded(now_ + 59s);
  EXPECT_TRUE(is_attached());
  hook_.detach_if_unneeded(now_ + 60s);
  EXPECT_FALSE(is_attached());
}

TEST_F(HookTest, StaysAttachedWhereTheNeedComesAndGoes) {
  EXPECT_TRUE(need_until_attached().value());
  for (int second = 0; second < 1000; ++second) {
    hook_.release(now_ + std::chrono::seconds(second));
    hook_.detach_if_unneeded(now_ + std::chrono::seconds(second));
    EXPECT_TRUE(hook_.need().value());
  }
  EXPECT_TRUE(is_attached());
  EXPECT_EQ(attached_, 1);
}

TEST_F(HookTest, IsAttachedAgainAfterItWasDetached) {
  EXPECT_TRUE(need_until_attached().value());
  hook_.release(now_);
  hook_.detach_if_unneeded(now_ + 60s);
  EXPECT_FALSE(hook_.need().value());
  EXPECT_TRUE(need_until_attached().value());
  EXPECT_TRUE(is_attached());
  EXPECT_EQ(attached_, 2);
}

TEST_F(HookTest, ThatIsReleasedWhileItIsBeingAttachedIsDetachedToo) {
  EXPECT_FALSE(hook_.need().value());
  hook_.release(now_);
  may_attach_.release();
  EXPECT_TRUE(is_attached());
  hook_.detach_if_unneeded(now_ + 60s);
  EXPECT_FALSE(is_attached());
}

TEST_F(HookTest, AnErrorIsReportedAndTheNextNeedTriesAgain) {
  fails_ = true;
  const auto failed = need_until_attached();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "the kernel has no such tracepoint");
  fails_ = false;
  EXPECT_TRUE(need_until_attached().value());
  EXPECT_EQ(attached_, 2);
}

}  // namespace
}  // namespace profd
