#include "daemon/profiles/process_labels.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/daemon/profiles/handmade_session.h"

namespace profd {
namespace {

TEST(ProcessLabelsTest, NumbersOfSessionsAndRunsAreFolded) {
  EXPECT_EQ(folded_unit("session-12.scope"), "session-#.scope");
  EXPECT_EQ(folded_unit("session-c2.scope"), "session-#.scope");
  EXPECT_EQ(folded_unit("run-r0123abcd.scope"), "run-#.scope");
  EXPECT_EQ(folded_unit("run-u7.service"), "run-#.service");
}

TEST(ProcessLabelsTest, OtherUnitsKeepTheirNames) {
  for (const char* unit :
       {"nginx.service", "run-parts.service", "session.scope", "run-.scope", ""}) {
    EXPECT_EQ(folded_unit(unit), unit);
  }
}

ProcessSnapshot process_of(std::uint32_t uid, const std::string& cgroup) {
  ProcessSnapshot process;
  process.key.tgid = 5;
  test::image_of(process).comm = "worker";
  test::image_of(process).uid = uid;
  test::image_of(process).identified = true;
  test::image_of(process).cgroup = cgroup;
  return process;
}

TEST(ProcessLabelsTest, AUserWithoutANameIsANumber) {
  const UserNames users{{0, "root"}, {33, "www-data"}};
  EXPECT_EQ(labels_of(process_of(33, ""), users).user, "www-data");
  EXPECT_EQ(labels_of(process_of(1000, ""), users).user, "#1000");
}

TEST(ProcessLabelsTest, AContainerIsTheStartOfItsId) {
  const std::string id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
  const ProcessLabels labels =
      labels_of(process_of(0, "/system.slice/docker-" + id + ".scope"), {});
  EXPECT_EQ(labels.container, "0123456789ab");
  EXPECT_EQ(labels_of(process_of(0, "/machine.slice/machine-web.scope"), {}).container, "web");
}

TEST(ProcessLabelsTest, APodHasItsNamespace) {
  std::string pattern = std::filesystem::temp_directory_path() / "labels-XXXXXX";
  const std::filesystem::path directory = ::mkdtemp(pattern.data());
  std::filesystem::create_directory(directory / "shop_web-0_1a-2b");
  PodDirectory pods(directory);
  const ProcessSnapshot process = process_of(0, "/kubepods.slice/kubepods-pod1a_2b.slice/x");
  EXPECT_EQ(labels_of(process, {}, &pods).pod, "shop/web-0");
  EXPECT_EQ(labels_of(process, {}).pod, "-");
  EXPECT_EQ(labels_of(process_of(0, "/kubepods/pod3c"), {}, &pods).pod, "-");
  std::filesystem::remove_all(directory);
}

TEST(ProcessLabelsTest, WhatDoesNotApplyIsADash) {
  ProcessSnapshot process;
  const ProcessLabels labels = labels_of(process, {});
  for (const std::string& label :
       {labels.comm, labels.unit, labels.container, labels.pod, labels.user, labels.runtime}) {
    EXPECT_EQ(label, "-");
  }
}

TEST(ProcessLabelsTest, TheRuntimeIsThatOfAMappedFile) {
  ProcessSnapshot process = process_of(0, "");
  ProcessMapping mapping;
  mapping.file = std::make_shared<const MappedFile>(MappedFile{.key = {}, .path = "/opt/bin/node"});
  test::image_of(process).mappings.emplace(1, mapping);
  EXPECT_EQ(labels_of(process, {}).runtime, "nodejs");
}

}  // namespace
}  // namespace profd
