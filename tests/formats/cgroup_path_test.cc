#include "formats/cgroup_path.h"

#include <string>

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
       }) {
    EXPECT_EQ(owner_of_cgroup(c.path), (CgroupOwner{c.unit, c.container})) << c.path;
  }
}

}  // namespace
}  // namespace profd
