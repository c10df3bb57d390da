// Windows that share memory: what stays unpacked, and what is unpacked again.

#include "ctl/ship/windows/unpacked_window.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "formats/base/gzip.h"
#include "formats/profile/pprof_writer.h"
#include "tests/ctl/ship/a_window.h"

namespace profd {
namespace {

// Of processes that are services: NAME/0, NAME/1, ...
std::string file_of(const std::string& name, int processes) {
  test::AWindow window(1'000);
  window.profile.duration_ns = 60'000'000'000;
  for (int i = 0; i < processes; ++i) {
    const std::string service = name + "/" + std::to_string(i);
    window.add(i + 1, service, "-", service, 1 + i);
  }
  return encode_pprof_gzip(window.profile);
}

std::size_t unpacked_bytes(const std::string& file) {
  return unpack_gzip(file, std::size_t{1} << 24)->size();
}

// The profiles of all parts of an open window.
std::vector<std::string> profiles_of(UnpackedWindow& window) {
  std::vector<std::string> profiles;
  const auto split = window.split({});
  EXPECT_TRUE(split);
  profiles.reserve(split->parts.size());
  for (const ServicePart& part : split->parts) {
    profiles.push_back(encode_pprof(*window.profile_of(part, ThreadLabels::kKept)));
  }
  return profiles;
}

// Finds: a label by which each sample would be a row of its own in the engines.
TEST(UnpackedWindowTest, TheLongestBlocksAreNotSent) {
  test::AWindow made(1'000);
  made.add(1, "a", "-", "f", 2);
  made.profile.add_sample(made.profile.samples()[0], std::vector<std::int64_t>{1, 10}, 10);
  WindowMemory memory;
  UnpackedWindow window(memory);
  ASSERT_TRUE(window.open(encode_pprof_gzip(made.profile)));
  const auto profiles = profiles_of(window);
  ASSERT_THAT(profiles, testing::SizeIs(1));
  EXPECT_THAT(profiles[0], testing::Not(testing::HasSubstr("longest")));
}

TEST(UnpackedWindowTest, AWindowHasItsTimeAndItsParts) {
  WindowMemory memory;
  UnpackedWindow window(memory);
  const auto time = window.open(file_of("a", 3));
  ASSERT_TRUE(time);
  EXPECT_EQ(time->start.time_since_epoch(), std::chrono::nanoseconds(1'000));
  EXPECT_EQ(time->length, std::chrono::minutes(1));
  const auto profiles = profiles_of(window);
  ASSERT_THAT(profiles, testing::SizeIs(3));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_THAT(profiles[i], testing::HasSubstr("a/" + std::to_string(i)));
  }
}

TEST(UnpackedWindowTest, WindowsThatFitStayUnpacked) {
  WindowMemory memory;
  UnpackedWindow first(memory);
  UnpackedWindow second(memory);
  const std::string file = file_of("a", 3);
  ASSERT_TRUE(first.open(file));
  ASSERT_TRUE(second.open(file_of("b", 5)));
  EXPECT_EQ(memory.used(), unpacked_bytes(file) + unpacked_bytes(file_of("b", 5)));
  second.close();
  EXPECT_EQ(memory.used(), unpacked_bytes(file));
  ASSERT_TRUE(first.open(file_of("b", 5)));
  EXPECT_EQ(memory.used(), unpacked_bytes(file_of("b", 5)));
}

TEST(UnpackedWindowTest, AWindowIsUnpackedAgainAfterAnotherTookItsMemory) {
  const std::string file = file_of("b", 4);
  WindowMemory memory(unpacked_bytes(file));
  UnpackedWindow first(memory);
  UnpackedWindow second(memory);
  ASSERT_TRUE(first.open(file_of("a", 3)));
  const auto profiles = profiles_of(first);
  ASSERT_TRUE(second.open(file));
  EXPECT_EQ(memory.used(), unpacked_bytes(file));
  EXPECT_EQ(profiles_of(first), profiles);
  EXPECT_EQ(memory.used(), unpacked_bytes(file_of("a", 3)));
}

// Fails where the windows of many endpoints stay unpacked: each takes three times its size.
TEST(UnpackedWindowTest, UsualWindowsTakeLittleMemoryWithAnyNumberOfEndpoints) {
  constexpr int kProcesses = 16'000;
  constexpr std::size_t kFewMebibytes = std::size_t{4} << 20;
  const std::string file = file_of("a-service-of-a-name-that-takes-some-memory", kProcesses);
  ASSERT_GT(unpacked_bytes(file), kFewMebibytes / 3);
  ASSERT_LT(unpacked_bytes(file), kFewMebibytes);
  WindowMemory memory;
  std::vector<std::unique_ptr<UnpackedWindow>> windows;
  windows.reserve(4);
  for (int i = 0; i < 4; ++i) {
    windows.push_back(std::make_unique<UnpackedWindow>(memory));
    EXPECT_TRUE(windows.back()->open(file));
    EXPECT_LE(memory.used(), kFewMebibytes);
  }
}

TEST(UnpackedWindowTest, AWindowIsClosedWhereItEnds) {
  WindowMemory memory(1);
  {
    UnpackedWindow window(memory);
    ASSERT_TRUE(window.open(file_of("a", 1)));
    EXPECT_GT(memory.used(), 0U);
  }
  EXPECT_EQ(memory.used(), 0U);
}

TEST(UnpackedWindowTest, WhatIsNoWindowLeavesNothing) {
  WindowMemory memory;
  UnpackedWindow window(memory);
  std::string large = file_of("a", 1);
  large.back() = '\x7f';  // of the size that the trailer states
  EXPECT_EQ(window.open(large).error(), PprofRefusal::kTooLarge);
  std::string small = file_of("a", 1);
  small[small.size() - 4] = '\x01';
  small[small.size() - 3] = '\x00';
  EXPECT_EQ(window.open(small).error(), PprofRefusal::kBadGzip);
  EXPECT_FALSE(window.open("malformed"));
  EXPECT_EQ(memory.used(), 0U);
  EXPECT_TRUE(window.open(file_of("a", 1)));
}

TEST(UnpackedWindowTest, ThreadsThatShareTheMemoryOfOneWindowSeeTheirOwn) {
  WindowMemory memory(1);
  std::vector<std::thread> threads;
  std::vector<int> faults(4);
  threads.reserve(faults.size());
  for (std::size_t i = 0; i < faults.size(); ++i) {
    threads.emplace_back([&memory, &fault = faults[i], name = std::to_string(i)] {
      UnpackedWindow window(memory);
      const auto time = window.open(file_of(name, 3));
      const auto expected = profiles_of(window);
      for (int turn = 0; turn < 50; ++turn) fault += profiles_of(window) == expected ? 0 : 1;
      fault += time && expected.size() == 3 && expected[0].find(name + "/0") != std::string::npos
                   ? 0
                   : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(faults, testing::Each(0));
  EXPECT_EQ(memory.used(), 0U);
}

}  // namespace
}  // namespace profd
