#include "collectors/unwinding/process_mappings.h"

#include <chrono>
#include <cstdint>
#include <set>

#include <gtest/gtest.h>

namespace profd {
namespace {

using std::chrono_literals::operator""s;

CodeMapping mapping(std::uint32_t tgid, std::uint64_t start, std::uint64_t end, std::uint64_t id,
                    std::uint64_t time_ns = 1) {
  CodeMapping code{};
  code.process.tgid = tgid;
  code.time_ns = time_ns;
  code.id = id;
  code.start = start;
  code.end = end;
  code.file.inode = 7;
  return code;
}

constexpr std::uint32_t kSomeUser = 1000;

void add_to(ProcessMappings& mappings, const CodeMapping& mapping, std::uint32_t user = kSomeUser) {
  mappings.add(mapping, user);
}

std::uint64_t id_at(const ProcessMappings& mappings, std::uint32_t tgid, std::uint64_t address) {
  const CodeMapping* found = mappings.find({.tgid = tgid}, address);
  return found == nullptr ? 0 : found->id;
}

TEST(ProcessMappingsTest, AnAddressIsFoundInTheMappingThatHoldsIt) {
  ProcessMappings mappings;
  add_to(mappings, mapping(1, 100, 200, 11));
  add_to(mappings, mapping(1, 200, 300, 12));
  add_to(mappings, mapping(2, 100, 200, 21));
  EXPECT_EQ(id_at(mappings, 1, 99), 0U);
  EXPECT_EQ(id_at(mappings, 1, 100), 11U);
  EXPECT_EQ(id_at(mappings, 1, 199), 11U);
  EXPECT_EQ(id_at(mappings, 1, 200), 12U);
  EXPECT_EQ(id_at(mappings, 1, 300), 0U);
  EXPECT_EQ(id_at(mappings, 2, 150), 21U);
  EXPECT_EQ(id_at(mappings, 3, 150), 0U);
}

TEST(ProcessMappingsTest, TheNewerOfTwoStands) {
  ProcessMappings mappings;
  add_to(mappings, mapping(1, 100, 200, 1, 10));
  add_to(mappings, mapping(1, 200, 300, 2, 10));
  add_to(mappings, mapping(1, 150, 250, 3, 20));
  EXPECT_EQ(id_at(mappings, 1, 120), 0U);
  EXPECT_EQ(id_at(mappings, 1, 160), 3U);
  EXPECT_EQ(mappings.size(), 1U);
  // Rings are not drained in the order of time.
  add_to(mappings, mapping(1, 100, 200, 1, 10));
  EXPECT_EQ(id_at(mappings, 1, 160), 3U);
  EXPECT_EQ(mappings.size(), 1U);
}

TEST(ProcessMappingsTest, ARepeatChangesNothing) {
  ProcessMappings mappings;
  for (int i = 0; i < 3; ++i) add_to(mappings, mapping(1, 100, 200, 1, 10));
  EXPECT_EQ(mappings.size(), 1U);
}

TEST(ProcessMappingsTest, TheVdsoStandsUnderAKeyOfItsOwn) {
  ProcessMappings mappings;
  CodeMapping vdso = mapping(1, 100, 200, 1);
  vdso.kind = PROFD_MAPPING_VDSO;
  vdso.file = {};
  add_to(mappings, vdso);
  EXPECT_EQ(mappings.find({.tgid = 1}, 100)->file, vdso_key());
}

TEST(ProcessMappingsTest, OneProcessIsBoundedAndSoAreAllTheOldestFirst) {
  ProcessMappings mappings;
  const std::size_t limit = ProcessMappings::kMaxMappings;
  for (std::uint32_t tgid = 1; tgid <= 20; ++tgid) {
    for (std::uint64_t i = 1; i <= ProcessMappings::kMaxMappingsOfProcess + 10; ++i) {
      add_to(mappings, mapping(tgid, i * 100, i * 100 + 50, i));
      ASSERT_LE(mappings.size(), limit + 1);
    }
  }
  EXPECT_EQ(id_at(mappings, 1, 100), 0U);
  EXPECT_EQ(id_at(mappings, 20, 100), 1U);
  EXPECT_EQ(id_at(mappings, 20, (ProcessMappings::kMaxMappingsOfProcess + 1) * 100), 0U);
}

// `count` mappings of 100 bytes.
void fill(ProcessMappings& mappings, std::uint32_t tgid, std::uint64_t count, std::uint32_t user) {
  for (std::uint64_t i = 1; i <= count; ++i) {
    add_to(mappings, mapping(tgid, i * 100, i * 100 + 50, i), user);
  }
}

TEST(ProcessMappingsTest, TheUserWithTheMostLosesThemFirst) {
  constexpr std::uint64_t kMost = ProcessMappings::kMaxMappingsOfProcess;
  ProcessMappings mappings;
  fill(mappings, 1, 10, 0);
  fill(mappings, 2, 10, kSomeUser + 1);
  for (std::uint32_t tgid = 3; tgid <= 20; ++tgid) fill(mappings, tgid, kMost, kSomeUser);
  EXPECT_LE(mappings.size(), ProcessMappings::kMaxMappings);
  EXPECT_EQ(id_at(mappings, 1, 100), 1U);
  EXPECT_EQ(id_at(mappings, 2, 100), 1U);
  EXPECT_EQ(id_at(mappings, 3, 100), 0U);
  EXPECT_EQ(id_at(mappings, 20, 100), 1U);
}

TEST(ProcessMappingsTest, UsersKeepHalf) {
  constexpr std::uint64_t kMost = ProcessMappings::kMaxMappingsOfProcess;
  ProcessMappings mappings;
  fill(mappings, 1, kMost, kSomeUser);
  fill(mappings, 2, kMost, kSomeUser + 1);
  for (std::uint32_t tgid = 3; tgid <= 20; ++tgid) fill(mappings, tgid, kMost, 0);
  EXPECT_EQ(id_at(mappings, 1, 100), 1U);
  EXPECT_EQ(id_at(mappings, 2, 100), 1U);
  EXPECT_EQ(id_at(mappings, 3, 100), 0U);
  EXPECT_EQ(id_at(mappings, 20, 100), 1U);
}

class EndedProcessesTest : public testing::Test {
 protected:
  void pass(std::chrono::seconds time) {
    now_ns_ += static_cast<std::uint64_t>(std::chrono::nanoseconds(time).count());
    mappings_.tick(now_ns_);
  }

  std::set<std::uint32_t> ended_;
  ProcessMappings mappings_{[this](const ProcessKey& key) { return ended_.contains(key.tgid); }};
  std::uint64_t now_ns_ = 1'000'000'000;
};

TEST_F(EndedProcessesTest, AreForgottenAMinuteLater) {
  add_to(mappings_, mapping(1, 100, 200, 1));
  add_to(mappings_, mapping(2, 100, 200, 2));
  add_to(mappings_, mapping(2, 200, 300, 3));
  pass(600s);
  ended_.insert(2);
  pass(600s);
  EXPECT_EQ(id_at(mappings_, 2, 100), 2U) << "it is seen to have ended only now";
  pass(59s);
  EXPECT_EQ(id_at(mappings_, 2, 100), 2U);
  pass(1s);
  EXPECT_EQ(id_at(mappings_, 2, 100), 0U);
  EXPECT_EQ(id_at(mappings_, 1, 100), 1U);
  EXPECT_EQ(mappings_.size(), 1U);
  add_to(mappings_, mapping(2, 100, 200, 4));
  EXPECT_EQ(id_at(mappings_, 2, 100), 4U);
}

TEST_F(EndedProcessesTest, StayWhereThePidIsUsedAgain) {
  add_to(mappings_, mapping(1, 100, 200, 1));
  ended_.insert(1);
  pass(1s);
  ended_.clear();
  pass(600s);
  ended_.insert(1);
  pass(1s);
  EXPECT_EQ(mappings_.size(), 1U);
}

// The io thread has other things to do.
TEST_F(EndedProcessesTest, OnlySomeAreCheckedAtOnce) {
  const auto some = static_cast<std::uint32_t>(ProcessMappings::kProcessesOfTick);
  for (std::uint32_t tgid = 1; tgid <= some * 3; ++tgid) {
    add_to(mappings_, mapping(tgid, 100, 200, 1));
    ended_.insert(tgid);
  }
  for (int i = 0; i < 3; ++i) pass(1s);
  pass(60s);
  EXPECT_EQ(mappings_.size(), some * 2);
  mappings_.tick(now_ns_);
  EXPECT_EQ(mappings_.size(), some * 2);
  for (int i = 0; i < 2; ++i) pass(1s);
  EXPECT_EQ(mappings_.size(), 0U);
}

}  // namespace
}  // namespace profd
