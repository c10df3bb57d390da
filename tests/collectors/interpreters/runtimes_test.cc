// The numbers of interpreters in fake maps: what the programs would find, sharing and shares.

#include "collectors/interpreters/runtimes.h"

#include <cstring>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "formats/python/layouts.h"
#include "tests/collectors/interpreters/fake_interpreter_maps.h"

namespace profd::test {
namespace {

constexpr std::uint32_t kAnnasUid = 1000;
constexpr std::uint32_t kBertsUid = 1001;

FileKey file_with_inode(std::uint64_t inode) { return {.inode = inode}; }

// One for each `code_type`.
FoundRuntime python_with(std::uint64_t code_type) {
  FoundRuntime found;
  found.verdict = RuntimeVerdict::kKnown;
  found.kind = PROFD_RUNTIME_PYTHON;
  found.version = 0x030b02;
  found.runtime.kind = PROFD_RUNTIME_PYTHON;
  found.runtime.layout = 4;
  found.runtime.code_type = code_type;
  found.runtime.slot_form[1] = PROFD_SLOT_KEY;
  found.runtime.loop[0] = {0x1000, 0x100};
  return found;
}

FoundRuntime refused_python(RuntimeVerdict verdict) {
  FoundRuntime found;
  found.verdict = verdict;
  found.kind = PROFD_RUNTIME_PYTHON;
  found.version = 0x030d02;
  return found;
}

class RuntimesTest : public testing::Test {
 protected:
  FakeInterpreterState state_;
  Runtimes runtimes_{std::make_unique<FakeInterpreterMaps>(state_)};
};

TEST_F(RuntimesTest, TheLayoutsOfAllVersionsAreThere) {
  for (unsigned minor = python::kFirstMinor; minor <= python::kLastMinor; ++minor) {
    profd_python_layout layout{};
    std::memcpy(&layout, &state_.layouts.at(python::layout_number(minor)), sizeof layout);
    EXPECT_EQ(layout.code_file, python::find_version(minor)->layout.code_file);
    EXPECT_NE(layout.tstate_thread_id, 0);
  }
}

TEST_F(RuntimesTest, EqualInterpretersShareANumberUntilTheLastFileIsRemoved) {
  const std::uint16_t number = runtimes_.add(file_with_inode(1), python_with(1), "/a", 0);
  ASSERT_NE(number, 0);
  EXPECT_EQ(runtimes_.add(file_with_inode(2), python_with(1), "/b", 0), number);
  EXPECT_NE(runtimes_.add(file_with_inode(3), python_with(3), "/c", 0), number);
  EXPECT_EQ(state_.runtimes.at(number).code_type, 1U);
  EXPECT_EQ(runtimes_.add(file_with_inode(1), python_with(1), "/a", 0), number) << "known already";
  runtimes_.remove(file_with_inode(1));
  EXPECT_EQ(state_.runtimes.at(number).kind, PROFD_RUNTIME_PYTHON);
  EXPECT_FALSE(runtimes_.is_loop(file_with_inode(1), 0x1000));
  EXPECT_TRUE(runtimes_.is_loop(file_with_inode(2), 0x1000));
  runtimes_.remove(file_with_inode(2));
  EXPECT_EQ(state_.runtimes.at(number).kind, PROFD_RUNTIME_NONE);
  runtimes_.remove(file_with_inode(2));
}

// A program may still find the runtime that had the number.
TEST_F(RuntimesTest, AFreeNumberIsTheLastToBeUsedAgain) {
  const std::uint16_t first = runtimes_.add(file_with_inode(1), python_with(1), "/a", 0);
  runtimes_.remove(file_with_inode(1));
  const std::uint16_t second = runtimes_.add(file_with_inode(2), python_with(2), "/a", 0);
  runtimes_.remove(file_with_inode(2));
  std::set<std::uint16_t> numbers;
  for (std::uint64_t i = 3; numbers.size() < PROFD_MAX_RUNTIMES - 3; ++i) {
    const std::uint16_t number = runtimes_.add(file_with_inode(i), python_with(i), "/a", 0);
    ASSERT_NE(number, 0);
    ASSERT_TRUE(number != first && number != second);
    numbers.insert(number);
  }
  EXPECT_EQ(runtimes_.add(file_with_inode(1000), python_with(1000), "/a", 0), first);
  EXPECT_EQ(runtimes_.add(file_with_inode(1001), python_with(1001), "/a", 0), second);
  EXPECT_EQ(runtimes_.add(file_with_inode(1002), python_with(1002), "/a", 0), 0) << "none is left";
}

TEST_F(RuntimesTest, UsersHaveAShareAndNeverKeepRootOut) {
  std::uint64_t next = 1;
  const auto add = [&](std::uint32_t payer) {
    const std::uint64_t file = next++;
    return runtimes_.add(file_with_inode(file), python_with(file), "/a", payer);
  };
  for (std::size_t i = 0; i < Runtimes::kMaxOfUser; ++i) ASSERT_NE(add(kAnnasUid), 0);
  EXPECT_EQ(add(kAnnasUid), 0);
  EXPECT_NE(add(kBertsUid), 0);
  std::size_t taken = Runtimes::kMaxOfUser + 1;
  for (std::uint32_t user = 2000; user < 2010; ++user) {
    for (std::size_t i = 0; i < Runtimes::kMaxOfUser; ++i) taken += add(user) != 0 ? 1 : 0;
  }
  EXPECT_EQ(taken, Runtimes::kMaxOfUsers);
  for (std::size_t i = 0; i < PROFD_MAX_RUNTIMES - 1 - Runtimes::kMaxOfUsers; ++i) {
    ASSERT_NE(add(0), 0);
  }
  EXPECT_EQ(add(0), 0);
}

TEST_F(RuntimesTest, WhatRootUsesIsNoUsersShare) {
  for (std::uint64_t i = 1; i <= Runtimes::kMaxOfUser; ++i) {
    ASSERT_NE(runtimes_.add(file_with_inode(i), python_with(i), "/a", kAnnasUid), 0);
  }
  EXPECT_EQ(runtimes_.add(file_with_inode(100), python_with(100), "/a", kAnnasUid), 0);
  EXPECT_NE(runtimes_.add(file_with_inode(101), python_with(1), "/usr", 0), 0);
  EXPECT_NE(runtimes_.add(file_with_inode(102), python_with(102), "/a", kAnnasUid), 0);
}

TEST_F(RuntimesTest, RefusedFilesAreListedAndCounted) {
  EXPECT_EQ(
      runtimes_.add(file_with_inode(1), refused_python(RuntimeVerdict::kFreeThreaded), "/t", 0), 0);
  EXPECT_EQ(runtimes_.add(file_with_inode(2), FoundRuntime{}, "/none", 0), 0);
  EXPECT_NE(runtimes_.add(file_with_inode(3), python_with(3), "/usr/bin/python3.11", 0), 0);
  const auto files = runtimes_.list();
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].path, "/t");
  EXPECT_EQ(files[0].text, "python 3.13.2");
  EXPECT_EQ(files[0].verdict, RuntimeVerdict::kFreeThreaded);
  EXPECT_EQ(files[1].text, "python 3.11.2");
  EXPECT_TRUE(files[1].has_room);
  const auto& counts = runtimes_.counts();
  EXPECT_EQ(counts[static_cast<std::size_t>(RuntimeVerdict::kFreeThreaded)], 1U);
  EXPECT_EQ(counts[static_cast<std::size_t>(RuntimeVerdict::kKnown)], 1U);
  EXPECT_EQ(counts[static_cast<std::size_t>(RuntimeVerdict::kNone)], 1U);
  EXPECT_EQ(runtimes_.kind_of(file_with_inode(1)), PROFD_RUNTIME_NONE);
  EXPECT_EQ(runtimes_.kind_of(file_with_inode(3)), PROFD_RUNTIME_PYTHON);
  EXPECT_EQ(runtimes_.by_file().size(), 1U);
  const InterpreterFiles refused = runtimes_.refused();
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused.begin()->first, file_with_inode(1));
  EXPECT_EQ(verdict_of(refused.begin()->second), "free_threaded");
  runtimes_.remove(file_with_inode(1));
  EXPECT_EQ(runtimes_.list().size(), 1U);
}

TEST_F(RuntimesTest, TheListOfUsersFilesIsLimited) {
  for (std::uint64_t i = 1; i <= 2 * Runtimes::kMaxListed; ++i) {
    (void)runtimes_.add(file_with_inode(i), refused_python(RuntimeVerdict::kNoSymbols), "/fake",
                        kAnnasUid);
  }
  EXPECT_EQ(runtimes_.list().size(), Runtimes::kMaxListed / 2);
  (void)runtimes_.add(file_with_inode(9999), python_with(1), "/usr/bin/python3", 0);
  EXPECT_EQ(runtimes_.list().size(), Runtimes::kMaxListed / 2 + 1);
}

TEST(RuntimesWithoutMapsTest, NoFileHasANumber) {
  Runtimes runtimes(nullptr);
  EXPECT_EQ(runtimes.add(file_with_inode(1), python_with(1), "/a", 0), 0);
  EXPECT_EQ(runtimes.maps(), nullptr);
  ASSERT_EQ(runtimes.list().size(), 1U);
  EXPECT_TRUE(runtimes.list().front().has_room);
}

}  // namespace
}  // namespace profd::test
