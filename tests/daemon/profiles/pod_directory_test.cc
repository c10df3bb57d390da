#include "daemon/profiles/pod_directory.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>

namespace profd {
namespace {

using std::chrono_literals::operator""s;
using testing::Optional;

TEST(PodEntryTest, IsNamespaceNameAndUid) {
  EXPECT_THAT(parse_pod_entry("kube-system_etcd-n1_0a1b2c"),
              Optional(PodEntry{.uid = "0a1b2c", .pod = "kube-system/etcd-n1"}));
  EXPECT_THAT(parse_pod_entry("a_b.c_1-2"), Optional(PodEntry{.uid = "1-2", .pod = "a/b.c"}));
  for (const char* name : {"", "a", "a_b", "_b_c", "a__c", "a_b_", "a_b_C", "a_b c_d", "a_b_c_d",
                           "a_\x1b[31m_c", "a_b/x_c", "\xc3\xa9_b_c"}) {
    EXPECT_FALSE(parse_pod_entry(name)) << name;
  }
}

std::filesystem::path make_pods_directory() {
  std::string pattern = std::filesystem::temp_directory_path() / "pods-XXXXXX";
  return ::mkdtemp(pattern.data());
}

class PodDirectoryTest : public testing::Test {
 protected:
  ~PodDirectoryTest() override { std::filesystem::remove_all(path_); }

  void add(const std::string& name) const { std::filesystem::create_directory(path_ / name); }

  std::filesystem::path path_ = make_pods_directory();
  std::chrono::steady_clock::time_point time_;
  PodDirectory pods_{path_, [this] { return time_; }};
};

TEST_F(PodDirectoryTest, KnowsThePodsOfItsDirectory) {
  add("shop_web-0_11-22");
  add("shop_db-0_33-44");
  add("not a pod");
  EXPECT_EQ(pods_.pod_of("11-22"), "shop/web-0");
  EXPECT_EQ(pods_.pod_of("33-44"), "shop/db-0");
  EXPECT_EQ(pods_.pod_of("55-66"), "");
  EXPECT_EQ(pods_.pod_of(""), "");
}

TEST_F(PodDirectoryTest, IsListedAgainForAnUnknownPodAfterSomeTime) {
  EXPECT_EQ(pods_.pod_of("11-22"), "");
  add("shop_web-0_11-22");
  time_ += 4s;
  EXPECT_EQ(pods_.pod_of("11-22"), "");
  time_ += 1s;
  EXPECT_EQ(pods_.pod_of("11-22"), "shop/web-0");
}

TEST_F(PodDirectoryTest, APodThatIsGoneKeepsItsName) {
  add("shop_web-0_11-22");
  EXPECT_EQ(pods_.pod_of("11-22"), "shop/web-0");
  std::filesystem::remove(path_ / "shop_web-0_11-22");
  time_ += 10s;
  EXPECT_EQ(pods_.pod_of("33-44"), "");
  EXPECT_EQ(pods_.pod_of("11-22"), "shop/web-0");
}

TEST_F(PodDirectoryTest, AHostWithoutKubernetesHasNone) {
  PodDirectory pods(path_ / "absent");
  EXPECT_EQ(pods.pod_of("11-22"), "");
}

}  // namespace
}  // namespace profd
