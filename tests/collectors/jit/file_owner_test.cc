// Files that are named after a process make work only where they may be its own.

#include <cstdint>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "collectors/jit/follower.h"
#include "collectors/jit/registry.h"
#include "tests/collectors/jit/runtime.h"

namespace profd::test {
namespace {

constexpr std::uint32_t kUser = 1000;
constexpr std::uint32_t kOther = 1001;
constexpr std::uint32_t kPidInSpace = 17;
// There is none: what the follower says of it is never taken, so that the test alone tells.
constexpr ProcessKey kProcess{.tgid = 0x7ffffff0, .exec_id = 1, .start_ns = 1};

class JitFileOwnerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto started = JitFollower::start({directory_.path()});
    ASSERT_TRUE(started) << started.error().message;
    follower_ = std::move(*started);
    registry_ = std::make_unique<JitRegistry>(*follower_);
    ProcessView view{};
    view.process = kProcess;
    view.uid = kUser;
    registry_->on_process(view);
    registry_->on_mapping(jit_code_of(kProcess));
  }

  // The look has found the process, and no file of it.
  void end_look(std::uint32_t uid) {
    JitProcessSeen seen{.process = kProcess, .look = {}};
    seen.look.is_gone = false;
    seen.look.facts.uid = uid;
    seen.look.facts.pid_in_space = kPidInSpace;
    registry_->on(seen);
  }

  [[nodiscard]] bool makes_look(std::uint32_t pid, std::uint32_t owner) {
    EXPECT_FALSE(registry_->find(kProcess)->is_looked_for);
    registry_->on(JitFileSeen{.pid = pid, .owner = owner, .kind = JitFileKind::kPerfMap});
    return registry_->find(kProcess)->is_looked_for;
  }

  PrivateDirectory directory_;
  std::unique_ptr<JitFollower> follower_;
  std::unique_ptr<JitRegistry> registry_;
};

TEST_F(JitFileOwnerTest, AFileOfItsUserOrOfRootMakesALook) {
  for (const std::uint32_t owner : {kUser, 0U}) {
    for (const std::uint32_t pid : {kPidInSpace, kProcess.tgid}) {
      end_look(kUser);
      EXPECT_TRUE(makes_look(pid, owner)) << owner << " " << pid;
    }
  }
}

TEST_F(JitFileOwnerTest, AFileOfAnotherUserOrPidMakesNone) {
  end_look(kUser);
  EXPECT_FALSE(makes_look(kPidInSpace, kOther));
  EXPECT_FALSE(makes_look(kProcess.tgid, kOther));
  EXPECT_FALSE(makes_look(kPidInSpace + 1, kUser));
}

// It may have become another user's since its first sample.
TEST_F(JitFileOwnerTest, TheUserIsTheOneOfTheLook) {
  end_look(kOther);
  EXPECT_FALSE(makes_look(kPidInSpace, kUser));
  EXPECT_TRUE(makes_look(kPidInSpace, kOther));
}

TEST_F(JitFileOwnerTest, TheUserIsTheOneOfItsSamplesWhereTheLookFoundNobody) {
  registry_->on(JitProcessSeen{.process = kProcess, .look = {}});
  EXPECT_FALSE(makes_look(kProcess.tgid, kOther));
  EXPECT_TRUE(makes_look(kProcess.tgid, kUser));
}

}  // namespace
}  // namespace profd::test
