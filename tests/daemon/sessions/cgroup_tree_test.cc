#include "daemon/sessions/cgroup_tree.h"

#include <filesystem>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/coroutines.h"
#include "tests/daemon/control/running_server.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

const std::string kId(64, 'a');
const std::string kOtherId = "aa" + std::string(62, 'b');
const std::string kManager = "/user.slice/user-1000.slice/user@1000.service";

// Directories that stand for a hierarchy: all that is looked at are their names.
class CgroupTreeTest : public ::testing::Test {
 protected:
  void make(const std::string& path) const {
    std::filesystem::create_directories(directory_.path().string() + path);
  }
  [[nodiscard]] std::string mount() const { return directory_.path(); }
  [[nodiscard]] Result<TargetRequest> resolve(const TargetRequest& target) const {
    return resolve(mount(), target);
  }
  static Result<TargetRequest> resolve(const std::string& mount, const TargetRequest& target) {
    boost::asio::io_context io;
    CgroupTree tree(io, mount);
    spawn(io, tree.refresh());
    io.run();
    return tree.resolve(target);
  }
  [[nodiscard]] Result<TargetRequest> unit(const std::string& name) const {
    TargetRequest target;
    target.units = {name};
    return resolve(target);
  }
  [[nodiscard]] Result<TargetRequest> container(const std::string& name) const {
    TargetRequest target;
    target.containers = {name};
    return resolve(target);
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(CgroupTreeTest, AUnitIsItsTopmostCgroup) {
  make("/system.slice/nginx.service/worker/nginx.service");
  make("/system.slice/other.service");
  EXPECT_THAT(unit("nginx.service")->cgroups, ElementsAre("/system.slice/nginx.service"));
  EXPECT_THAT(unit("system.slice")->cgroups, ElementsAre("/system.slice"));
}

TEST_F(CgroupTreeTest, NamesThatUsersChooseCountOnlyWhereTheSystemHasNone) {
  make("/system.slice/nginx.service");
  for (int i = 0; i < 20; ++i) make(kManager + "/" + std::to_string(i) + "/nginx.service");
  make(kManager + "/app.slice/mine.service");
  make("/system.slice/docker-" + kId + ".scope/system.slice/nginx.service");
  EXPECT_THAT(unit("nginx.service")->cgroups, ElementsAre("/system.slice/nginx.service"));
  EXPECT_THAT(unit("mine.service")->cgroups, ElementsAre(kManager + "/app.slice/mine.service"));
}

TEST_F(CgroupTreeTest, ManyCgroupsOfAUserDoNotHideThoseOfTheSystem) {
  for (std::size_t i = 0; i < CgroupTree::kMaxCgroups + 10; ++i) {
    make(kManager + "/" + std::to_string(i));
  }
  make("/system.slice/deep.slice/a.slice/b.slice/c.slice/nginx.service");
  EXPECT_THAT(unit("nginx.service")->cgroups,
              ElementsAre("/system.slice/deep.slice/a.slice/b.slice/c.slice/nginx.service"));
}

TEST_F(CgroupTreeTest, AContainerIsFoundByTheBeginningOfItsId) {
  make("/system.slice/docker-" + kId + ".scope/init");
  make("/kubepods.slice/kubepods-pod12.slice/cri-containerd-" + kOtherId + ".scope");
  make("/machine.slice/machine-web.scope/payload");
  EXPECT_THAT(container(kId.substr(0, 12))->cgroups,
              ElementsAre("/system.slice/docker-" + kId + ".scope"));
  EXPECT_THAT(container("web")->cgroups, ElementsAre("/machine.slice/machine-web.scope"));
  const auto both = container("aa");
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(both.error().hint, HasSubstr(kId));
}

TEST_F(CgroupTreeTest, OtherTermsAreKept) {
  make("/system.slice/nginx.service");
  TargetRequest target;
  target.pids = {7};
  target.cgroups = {"/x"};
  target.units = {"nginx.service"};
  const auto resolved = resolve(target);
  ASSERT_TRUE(resolved);
  EXPECT_THAT(resolved->pids, ElementsAre(7));
  EXPECT_THAT(resolved->cgroups, ElementsAre("/x", "/system.slice/nginx.service"));
}

TEST_F(CgroupTreeTest, ANameThatMatchesNothingIsAnErrorWithAHint) {
  for (const auto& missing : {unit("none.service"), container("web")}) {
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
    EXPECT_NE(missing.error().hint, "");
  }
  TargetRequest target;
  target.units = {"a.service"};
  EXPECT_EQ(resolve("", target).error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(resolve("", TargetRequest()));
}

boost::asio::awaitable<void> refresh(CgroupTree& tree, int& ended) {
  co_await tree.refresh();
  ++ended;
}

boost::asio::awaitable<void> count_turns(const int& ended, int& turns) {
  while (ended == 0) {
    ++turns;
    co_await yield();
  }
}

TEST_F(CgroupTreeTest, OtherTasksRunDuringAWalk) {
  for (int i = 0; i < 1000; ++i) make(kManager + "/" + std::to_string(i));
  boost::asio::io_context io;
  CgroupTree tree(io, mount());
  int ended = 0;
  int turns = 0;
  for (int i = 0; i < 2; ++i) spawn(io, refresh(tree, ended));
  spawn(io, count_turns(ended, turns));
  io.run();
  EXPECT_EQ(ended, 2);
  EXPECT_GE(turns, 10);
}

}  // namespace
}  // namespace profd
