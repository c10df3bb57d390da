// The process that the name of a profile names.

#include "ctl/sources/profile_name.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

namespace profd {
namespace {

TEST(ProfileName, NamesOfProfdHaveACommandAndAPid) {
  struct Named {
    std::string file;
    std::string comm;
    std::uint32_t pid = 0;
  };
  for (const auto& [file, comm, pid] :
       {Named{"shares.4711.prof", "shares", 4711}, Named{"shares.4711.2.prof", "shares", 4711},
        Named{"python3.11.4711.prof", "python3.11", 4711},
        Named{"python3.11.4711.2.prof", "python3.11", 4711}, Named{"app.7.xray.prof", "app", 7},
        Named{"app.7.xray-calls.prof", "app", 7}, Named{"app.7.2.xray.prof", "app", 7},
        Named{"kworker_0_1-events.12.prof", "kworker_0_1-events", 12},
        Named{"sh.4194304.prof", "sh", 4194304}, Named{"init.1.1.prof", "init.1", 1}}) {
    const ProfileOwner owner = owner_of_profile_name(file);
    EXPECT_EQ(owner.comm, comm) << file;
    EXPECT_EQ(owner.pid, pid) << file;
  }
}

TEST(ProfileName, OtherNamesAreACommandAlone) {
  struct Named {
    std::string file;
    std::string comm;
  };
  for (const auto& [file, comm] :
       {Named{"cpu.prof", "cpu"}, Named{"cpu", "cpu"}, Named{"cpu.4711", "cpu"},
        Named{".4711.prof", ".4711"}, Named{"4711.prof", "4711"}, Named{"cpu.0.prof", "cpu.0"},
        Named{"cpu.0012.prof", "cpu.0012"}, Named{"cpu.20260102.prof", "cpu.20260102"},
        Named{"cpu.-7.prof", "cpu.-7"}, Named{"cpu..prof", "cpu."},
        Named{"cpu.99999999999999999999.prof", "cpu.99999999999999999999"}, Named{".prof", ".prof"},
        Named{"a.xray.prof", "a.xray"}, Named{"", ""}}) {
    const ProfileOwner owner = owner_of_profile_name(file);
    EXPECT_EQ(owner.comm, comm) << file;
    EXPECT_EQ(owner.pid, 0U) << file;
  }
}

}  // namespace
}  // namespace profd
