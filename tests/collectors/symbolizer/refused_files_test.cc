#include "collectors/symbolizer/refused_files.h"

#include <chrono>
#include <string>

#include <gtest/gtest.h>

namespace profd::test {
namespace {

using namespace std::chrono_literals;

constexpr RefusedFiles::TimePoint kStart{100h};

TEST(RefusedFilesTest, AFileIsRememberedForAnHour) {
  RefusedFiles files;
  files.add("a", DwarfLoss::kFault, kStart);
  EXPECT_EQ(files.find("a", kStart), DwarfLoss::kFault);
  EXPECT_EQ(files.find("a", kStart + 59min), DwarfLoss::kFault);
  EXPECT_EQ(files.find("a", kStart + 60min), std::nullopt);
  EXPECT_EQ(files.find("b", kStart), std::nullopt);
}

TEST(RefusedFilesTest, TheHourBeginsAnewWithEachRefusal) {
  RefusedFiles files;
  files.add("a", DwarfLoss::kFault, kStart);
  files.add("a", DwarfLoss::kTimeLimit, kStart + 50min);
  files.add("b", DwarfLoss::kZstd, kStart + 70min);
  EXPECT_EQ(files.find("a", kStart + 100min), DwarfLoss::kTimeLimit);
  EXPECT_EQ(files.find("a", kStart + 110min), std::nullopt);
}

TEST(RefusedFilesTest, WhatIsNotDueToTheFileIsNotRemembered) {
  RefusedFiles files;
  files.add("a", DwarfLoss::kCpuTime, kStart);
  files.add("a", DwarfLoss::kNoUnit, kStart);
  files.add("a", DwarfLoss::kBusy, kStart);
  EXPECT_EQ(files.find("a", kStart), std::nullopt);
}

TEST(RefusedFilesTest, TheOldestIsForgottenForANewOne) {
  RefusedFiles files;
  for (std::size_t i = 0; i <= RefusedFiles::kMaxFiles; ++i) {
    files.add(std::to_string(i), DwarfLoss::kFault, kStart + std::chrono::seconds(i / 4));
  }
  const auto now = kStart + 20min;
  EXPECT_EQ(files.find("0", now), std::nullopt);
  EXPECT_EQ(files.find("1", now), DwarfLoss::kFault);
  EXPECT_EQ(files.find(std::to_string(RefusedFiles::kMaxFiles), now), DwarfLoss::kFault);
}

}  // namespace
}  // namespace profd::test
