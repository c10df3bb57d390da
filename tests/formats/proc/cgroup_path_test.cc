#include "formats/proc/cgroup_path.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

const std::string kId = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

TEST(CgroupPath, NamesTheInnermostUnitAndTheContainer) {
  struct Case {
    std::string path;
    std::optional<std::string> unit;
    std::optional<std::string> container;
  };
  const std::optional<std::string> none;
  for (const Case& c : {
           Case{"/", none, none},
           {"", none, none},
           {"/system.slice/nginx.service", "nginx.service", none},
           {"/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service", none},
           {"/init.scope", "init.scope", none},
           {"/user.slice/user-1000.slice/session-3.scope", "session-3.scope", none},
           {"/user.slice/user-1000.slice/user@1000.service/app.slice/foo.service", "foo.service",
            none},
           {"/user.slice/user-1000.slice/user@1000.service/app.slice", "user@1000.service", none},
           {"/system.slice/a\\x2db.service/worker", "a\\x2db.service", none},
           {"/system.slice", none, none},
           {"/system.slice/docker-" + kId + ".scope", none, kId},
           {"/machine.slice/libpod-" + kId + ".scope/container", none, kId},
           {"/machine.slice/libpod-conmon-" + kId + ".scope", "libpod-conmon-" + kId + ".scope",
            none},
           {"/docker/" + kId, none, kId},
           {"/kubepods/burstable/pod1234/" + kId, none, kId},
           {"/kubepods.slice/kubepods-pod12.slice/cri-containerd-" + kId + ".scope", none, kId},
           {"/kubepods.slice/kubepods-pod12.slice/crio-" + kId + ".scope", none, kId},
           {"/system.slice/containerd.service/kubepods-pod12.slice:cri-containerd:" + kId,
            "containerd.service", kId},
           {"/system.slice/docker-" + kId + ".scope/system.slice/nginx.service", "nginx.service",
            kId},
           {"/system.slice/docker-0123.scope", "docker-0123.scope", none},
           {"/docker/" + kId + "0", none, none},
           {"/docker/" + std::string(64, 'g'), none, none},
           {"/.service", none, none},
           {"///a.service//", "a.service", none},
           {"/machine.slice/machine-web.scope/payload/system.slice/nginx.service", "nginx.service",
            "web"},
           {"/machine.slice/machine-my\\x2dbox.scope/payload", none, "my-box"},
           {"/machine.slice/machine-odd\\xzz\\x2.scope", none, "odd\\xzz\\x2"},
           {"/machine.slice/systemd-nspawn@web.service/payload", "systemd-nspawn@web.service",
            none},
           {"/lxc.payload.box/init.scope", "init.scope", "box"},
           {"/lxc.payload.", none, none},
       }) {
    EXPECT_EQ(owner_of_cgroup(c.path), (CgroupOwner{c.unit, c.container})) << c.path;
  }
}

TEST(CgroupPath, AUnitWithoutASuffixIsAService) {
  EXPECT_EQ(full_unit_name("nginx"), "nginx.service");
  EXPECT_EQ(full_unit_name("nginx.service"), "nginx.service");
  EXPECT_EQ(full_unit_name("session-3.scope"), "session-3.scope");
  EXPECT_EQ(full_unit_name("user.slice"), "user.slice");
  EXPECT_EQ(full_unit_name("getty@tty1"), "getty@tty1.service");
  EXPECT_EQ(full_unit_name("my.app"), "my.app.service");
}

TEST(CgroupPath, MatchesEachUnitOfThePath) {
  struct Case {
    std::string path;
    const char* unit;
    CgroupMatch match;
  };
  const std::string user = "/user.slice/user-1000.slice/user@1000.service";
  for (const Case& c : {
           Case{"/system.slice/nginx.service", "nginx.service", CgroupMatch::kSystem},
           {"/system.slice/nginx.service/worker", "nginx.service", CgroupMatch::kSystem},
           {"/system.slice/nginx.service", "system.slice", CgroupMatch::kSystem},
           {"/system.slice/nginx.service", "nginx", CgroupMatch::kNone},
           {"/system.slice/nginx.service.d", "nginx.service", CgroupMatch::kNone},
           {user + "/app.slice/foo.service", "user@1000.service", CgroupMatch::kSystem},
           {user + "/app.slice/foo.service", "foo.service", CgroupMatch::kDelegated},
           {user + "/nginx.service", "nginx.service", CgroupMatch::kDelegated},
           {"/system.slice/docker-" + kId + ".scope/system.slice/nginx.service", "nginx.service",
            CgroupMatch::kDelegated},
           {"/machine.slice/machine-web.scope/payload/a.service", "a.service",
            CgroupMatch::kDelegated},
           {"", "", CgroupMatch::kNone},
           {"/", "", CgroupMatch::kNone},
       }) {
    EXPECT_EQ(match_unit(c.path, c.unit), c.match) << c.path << " " << c.unit;
  }
}

TEST(CgroupPath, MatchesTheIdOfAContainerTheStartOfItAndTheName) {
  struct Case {
    std::string path;
    std::string name;
    CgroupMatch match;
    std::string container;
  };
  const std::string scope = "/system.slice/docker-" + kId + ".scope";
  for (const Case& c : {
           Case{scope, kId, CgroupMatch::kSystem, kId},
           {scope + "/below", kId.substr(0, 12), CgroupMatch::kSystem, kId},
           {scope, kId.substr(1, 12), CgroupMatch::kNone, ""},
           {scope, "", CgroupMatch::kNone, ""},
           {"/docker/" + kId, "01", CgroupMatch::kSystem, kId},
           {"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + kId + ".scope",
            kId, CgroupMatch::kDelegated, kId},
           {"/machine.slice/machine-web.scope/payload", "web", CgroupMatch::kSystem, "web"},
           {"/machine.slice/machine-web.scope/payload", "we", CgroupMatch::kNone, ""},
           {"/lxc.payload.box/a", "box", CgroupMatch::kSystem, "box"},
           {"/system.slice/nginx.service", "nginx", CgroupMatch::kNone, ""},
       }) {
    const ContainerMatch match = match_container(c.path, c.name);
    EXPECT_EQ(match.match, c.match) << c.path << " " << c.name;
    EXPECT_EQ(match.container, c.container) << c.path << " " << c.name;
  }
}

TEST(CgroupPath, NamesThePodOfKubernetes) {
  const std::string uid = "0a1b2c3d-1111-2222-3333-444455556666";
  const std::string below = "/cri-containerd-" + kId + ".scope";
  struct Case {
    std::string path;
    std::string uid;
  };
  for (const Case& c : std::vector<Case>{
           {"/kubepods.slice/kubepods-burstable.slice/"
            "kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice" +
                below,
            uid},
           {"/kubepods.slice/kubepods-pod0a1b2c3d_1111_2222_3333_444455556666.slice", uid},
           {"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod12.slice", "12"},
           {"/kubepods/besteffort/pod" + uid + "/" + kId, uid},
           {"/kubelet/kubepods/pod12", "12"},
           {"/kubepods/podcast", ""},
           {"/kubepods/pod" + std::string(65, 'a'), ""},
           {"/pod" + uid, ""},
           {"/my-pod12.slice", ""},
           {"/system.slice/nginx.service", ""},
           {"/docker/" + kId + "/kubepods/pod" + uid, ""},
           {"/user.slice/user-1000.slice/user@1000.service/kubepods.slice/kubepods-pod12.slice",
            ""},
           {"", ""}}) {
    EXPECT_EQ(pod_uid_of_cgroup(c.path), c.uid) << c.path;
  }
}

TEST(CgroupPath, UsersChooseTheNamesBelowTheirManagerAndInContainers) {
  EXPECT_FALSE(delegates_names("/system.slice/nginx.service"));
  EXPECT_TRUE(delegates_names("/user.slice/user-1000.slice/user@1000.service"));
  EXPECT_TRUE(delegates_names("/docker/" + kId));
}

}  // namespace
}  // namespace profd
