#include "ctl/options/destination.h"

#include <gtest/gtest.h>

namespace profd {
namespace {

TEST(DestinationTest, TheExtensionSaysTheForm) {
  EXPECT_EQ(make_destination("x.pb.gz", "").value().form, ResultForm::kPprof);
  EXPECT_EQ(make_destination("a/x.folded", "").value().form, ResultForm::kFolded);
  EXPECT_EQ(make_destination("x.speedscope.json", "").value().form, ResultForm::kSpeedscope);
  for (const char* directory : {"", "out", "x.pb", "x.json", "x.gz", "pb.gz/"}) {
    EXPECT_EQ(make_destination(directory, "").value().form, ResultForm::kDirectory) << directory;
  }
}

TEST(DestinationTest, AFormatCountsMoreThanTheExtension) {
  EXPECT_EQ(make_destination("x.folded", "pprof").value().form, ResultForm::kPprof);
  EXPECT_EQ(make_destination("x.pb.gz", "dir").value().form, ResultForm::kDirectory);
  EXPECT_EQ(make_destination("-", "folded").value().form, ResultForm::kFolded);
}

TEST(DestinationTest, WhatHasNoPlaceIsRefused) {
  for (const auto& [output, format] :
       {std::pair("-", ""), std::pair("-", "dir"), std::pair("", "pprof"), std::pair("x", "svg")}) {
    const auto made = make_destination(output, format);
    ASSERT_FALSE(made) << output << " " << format;
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(made.error().hint.empty());
  }
}

}  // namespace
}  // namespace profd
