#include "ctl/options/destination.h"

#include <gtest/gtest.h>

namespace profd {
namespace {

TEST(DestinationTest, TheExtensionSaysTheForm) {
  EXPECT_EQ(make_destination("x.pb.gz", "").value().form, ResultForm::kPprof);
  EXPECT_EQ(make_destination("a/x.folded", "").value().form, ResultForm::kFolded);
  EXPECT_EQ(make_destination("x.speedscope.json", "").value().form, ResultForm::kSpeedscope);
  for (const char* directory : {"", "out", "x.prof", "pb.gz/", "x.json/"}) {
    EXPECT_EQ(make_destination(directory, "").value().form, ResultForm::kDirectory) << directory;
  }
}

TEST(DestinationTest, AFormatCountsMoreThanTheExtension) {
  EXPECT_EQ(make_destination("x.folded", "pprof").value().form, ResultForm::kPprof);
  EXPECT_EQ(make_destination("x.pb.gz", "dir").value().form, ResultForm::kDirectory);
  EXPECT_EQ(make_destination("x.json", "dir").value().form, ResultForm::kDirectory);
  EXPECT_EQ(make_destination("-", "folded").value().form, ResultForm::kFolded);
}

TEST(DestinationTest, WhatHasNoPlaceIsRefused) {
  for (const auto& [output, format] :
       {std::pair("-", ""), std::pair("-", "dir"), std::pair("", "pprof"), std::pair("x", "svg"),
        std::pair("x.json", ""), std::pair("x.pb", ""), std::pair("x.folded.gz", ""),
        std::pair("x.svg", "")}) {
    const auto made = make_destination(output, format);
    ASSERT_FALSE(made) << output << " " << format;
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(made.error().hint.empty());
  }
}

TEST(DestinationTest, AFlameGraphHasItsSubcommand) {
  for (const char* const graph : {"n.svg", "n.html"}) {
    EXPECT_NE(make_destination(graph, "").error().hint.find("'profctl flame -o'"),
              std::string::npos)
        << graph;
  }
  EXPECT_EQ(make_destination("n.json", "").error().hint.find("flame"), std::string::npos);
}

TEST(DestinationTest, ASplitResultIsADirectoryOfFiles) {
  const auto by_unit = split_destination({.path = "out"}, "unit");
  ASSERT_TRUE(by_unit);
  EXPECT_EQ(by_unit->by, PprofSplitKey::kUnit);
  EXPECT_EQ(by_unit->form, ResultForm::kPprof);
  EXPECT_FALSE(by_unit->is_file());
  const auto folded = split_destination(make_destination("out", "folded").value(), "process");
  EXPECT_EQ(folded.value().form, ResultForm::kFolded);
  EXPECT_EQ(extension_of(folded->form), ".folded");
  for (const char* file : {"x.pb.gz", "x.folded", "-"}) {
    EXPECT_FALSE(split_destination({.path = file, .form = ResultForm::kPprof}, "unit")) << file;
  }
  EXPECT_FALSE(split_destination({.path = "out"}, "user"));
}

}  // namespace
}  // namespace profd
