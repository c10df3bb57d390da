#include "formats/profile/pprof_profile.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace profd {
namespace {

using testing::ElementsAre;

class PprofProfileTest : public testing::Test {
 protected:
  std::string name_of_only_line(std::uint32_t location) {
    const auto lines = profile_.lines(profile_.locations()[location].lines);
    EXPECT_EQ(lines.size(), 1U);
    return std::string(profile_.text(profile_.functions()[lines[0].function].name));
  }
  std::uint32_t nameless_location(const std::string& file) {
    const auto mapping = profile_.add_mapping({.file = profile_.add_text(file)});
    return profile_.add_location({.address = 0x10, .mapping = mapping}, {});
  }

  PprofProfile profile_{{{"samples", "count"}}, 1};
};

TEST_F(PprofProfileTest, HoldsEachTextOnce) {
  EXPECT_EQ(profile_.add_text(""), 0U);
  const auto first = profile_.add_text("first");
  const auto second = profile_.add_text("second");
  EXPECT_NE(first, second);
  EXPECT_EQ(profile_.add_text("first"), first);
  EXPECT_EQ(profile_.text(second), "second");
  EXPECT_EQ(profile_.text_count(), 3U);
}

TEST_F(PprofProfileTest, TakesTextsThatDifferOnlyInMalformedBytesForOne) {
  EXPECT_EQ(profile_.add_text("a\xff"
                              "b"),
            profile_.add_text("a\xfe"
                              "b"));
  EXPECT_EQ(profile_.text(profile_.add_text("a\xff"
                                            "b")),
            "a\uFFFDb");
}

TEST_F(PprofProfileTest, CutsLongTexts) {
  const std::string longest(1024, 'x');
  EXPECT_EQ(profile_.text(profile_.add_text(longest)), longest);
  EXPECT_EQ(profile_.text(profile_.add_text(longest + 'x')), std::string(1021, 'x') + "...");
}

TEST_F(PprofProfileTest, NamesALocationWithoutLinesByItsFile) {
  EXPECT_EQ(name_of_only_line(nameless_location("/usr/lib/libfoo.so")), "[libfoo.so]");
  EXPECT_EQ(name_of_only_line(nameless_location("[vdso]")), "[vdso]");
  EXPECT_EQ(name_of_only_line(nameless_location("")), "[unknown]");
  EXPECT_EQ(name_of_only_line(nameless_location("/ends/in/slash/")), "[unknown]");
  EXPECT_EQ(name_of_only_line(profile_.add_location({.address = 1}, {})), "[unknown]");
}

TEST_F(PprofProfileTest, HoldsEachLocationOnce) {
  const auto function = profile_.add_function({.name = profile_.add_text("f")});
  const std::vector<PprofLine> lines = {{function, 1}, {function, 2}};
  const std::vector<PprofLine> turned = {{function, 2}, {function, 1}};
  const auto location = profile_.add_location({.address = 1}, lines);
  EXPECT_EQ(profile_.add_location({.address = 1}, lines), location);
  EXPECT_NE(profile_.add_location({.address = 2}, lines), location);
  EXPECT_NE(profile_.add_location({.address = 1}, turned), location);
  EXPECT_NE(profile_.add_location({.address = 1, .is_folded = true}, lines), location);
}

TEST_F(PprofProfileTest, TakesLabelsForASet) {
  const PprofLabel pid{.key = profile_.add_text("pid"), .number = 7};
  const PprofLabel comm{.key = profile_.add_text("comm"), .text = profile_.add_text("sh")};
  EXPECT_EQ(profile_.add_labels({pid, comm}), profile_.add_labels({comm, pid, comm}));
  EXPECT_NE(profile_.add_labels({pid}), profile_.add_labels({pid, comm}));
}

TEST_F(PprofProfileTest, GivesTheNumberZeroAUnit) {
  const auto uid = profile_.add_text("uid");
  const auto bytes = profile_.add_text("bytes");
  const auto unit_of = [&](const PprofLabel& label) {
    return profile_.labels(profile_.add_labels({label}))[0].unit;
  };
  EXPECT_EQ(unit_of({.key = uid, .number = 0}), uid);
  EXPECT_EQ(unit_of({.key = uid, .number = 0, .unit = bytes}), bytes);
  EXPECT_EQ(unit_of({.key = uid, .number = 1}), 0U);
  EXPECT_EQ(unit_of({.key = uid, .text = bytes}), 0U);
}

TEST_F(PprofProfileTest, LeavesOutALabelWithNothing) {
  EXPECT_TRUE(profile_.labels(profile_.add_labels({PprofLabel{}})).empty());
}

TEST_F(PprofProfileTest, AddsUpSamplesWithinTheLimitsOfTheirType) {
  using Limits = std::numeric_limits<std::int64_t>;
  const auto add = [&](std::int64_t value) {
    const PprofSample sample{profile_.add_labels({}), profile_.add_stack({})};
    profile_.add_sample(sample, std::vector{value});
  };
  add(3);
  add(4);
  ASSERT_EQ(profile_.samples().size(), 1U);
  EXPECT_THAT(profile_.values(0), ElementsAre(7));
  add(Limits::max());
  EXPECT_THAT(profile_.values(0), ElementsAre(Limits::max()));
  add(Limits::min());
  add(Limits::min());
  EXPECT_THAT(profile_.values(0), ElementsAre(Limits::min()));
}

TEST_F(PprofProfileTest, KeepsSamplesOfOtherLabelsAndStacksApart) {
  const auto location = profile_.add_location({.address = 1}, {});
  const auto none = profile_.add_labels({});
  const auto some = profile_.add_labels({{.key = profile_.add_text("pid"), .number = 1}});
  const auto empty = profile_.add_stack({});
  const auto once = profile_.add_stack(std::vector{location});
  const auto twice = profile_.add_stack(std::vector{location, location});
  for (const auto& sample : {PprofSample{none, empty}, {none, once}, {some, once}, {none, twice}}) {
    profile_.add_sample(sample, std::vector<std::int64_t>{1});
  }
  EXPECT_EQ(profile_.samples().size(), 4U);
  EXPECT_THAT(profile_.stack(twice), ElementsAre(location, location));
}

}  // namespace
}  // namespace profd
