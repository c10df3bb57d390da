#include "ctl/output/columns.h"

#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace profd {
namespace {

using testing::HasSubstr;
using testing::Not;

FittingTable a_table() {
  FittingTable table({{.title = "CPU", .is_optional = true},
                      {.title = "SHARE"},
                      {.title = "FUNCTION", .kind = ColumnKind::kName},
                      {.title = "OBJECT", .kind = ColumnKind::kOptional}});
  table.add({{"1.0 %"}, {"50.0 %"}, {"a::rather::long::name::of::a::function"}, {"libfoo.so.1"}});
  table.add(
      {{"12.0 %"}, {"5.0 %"}, {.text = "short", .color = TextColor::kRed, .indent = 2}, {""}});
  return table;
}

TEST(Columns, WithoutATerminalLinesHaveAnyLength) {
  EXPECT_EQ(a_table().text({}),
            "   CPU   SHARE  FUNCTION                                OBJECT\n"
            " 1.0 %  50.0 %  a::rather::long::name::of::a::function  libfoo.so.1\n"
            "12.0 %   5.0 %    short\n");
}

TEST(Columns, LinesFitEachWidthOfATerminal) {
  for (std::size_t width = 24; width < 100; ++width) {
    std::istringstream lines(a_table().text({.width = width}));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(columns_of(line), width) << line;
    }
  }
}

TEST(Columns, WithoutATerminalNoTextIsCut) {
  FittingTable table({{.title = "NAME", .kind = ColumnKind::kName},
                      {.title = "OBJECT", .kind = ColumnKind::kOptional},
                      {.title = "COUNT"}});
  const std::string name(500, 'n');
  const std::string object(100, 'o');
  table.add({{name}, {object}, {"1"}});
  EXPECT_THAT(table.text({}), HasSubstr("\n" + name + "  " + object + "      1\n"));
}

TEST(Columns, NamesShareWhatIsLeft) {
  FittingTable table({{.title = "N"},
                      {.title = "LEFT", .kind = ColumnKind::kName, .keeps_start = true},
                      {.title = "RIGHT", .kind = ColumnKind::kName}});
  table.add({{"1"}, {"abcdefghijklmnopqrstuvwxyz"}, {"abcdefghijklmnopqrstuvwxyz"}});
  table.add({{"2"}, {"a"}, {"b"}});
  // 30 = 1 + 2 + 12 + 2 + 13
  EXPECT_EQ(table.text({.width = 30}),
            "N  LEFT          RIGHT\n"
            "1  abcdefghijk…  …opqrstuvwxyz\n"
            "2  a             b\n");
  FittingTable uneven({{.title = "LEFT", .kind = ColumnKind::kName},
                       {.title = "RIGHT", .kind = ColumnKind::kName}});
  uneven.add({{"abcdefghijklmnopqrstuvwxyz"}, {"short"}});
  EXPECT_EQ(uneven.text({.width = 30}),
            "LEFT                     RIGHT\n"
            "…efghijklmnopqrstuvwxyz  short\n");
}

TEST(Columns, AWideTerminalHasRoomForOptionalTexts) {
  FittingTable table({{.title = "NAME", .kind = ColumnKind::kName},
                      {.title = "OBJECT", .kind = ColumnKind::kOptional}});
  table.add({{"name"}, {std::string(40, 'o')}});
  EXPECT_THAT(table.text({.width = 46}), HasSubstr("name  " + std::string(40, 'o') + "\n"));
  EXPECT_THAT(table.text({.width = 45}), HasSubstr("name  …" + std::string(38, 'o') + "\n"));
}

TEST(Columns, ALongLineIsBrokenAtBlanks) {
  EXPECT_EQ(wrapped("one two three", {.width = 7}), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", {.width = 6}), "one\ntwo\nthree");
  EXPECT_EQ(wrapped("a-long-word b", {.width = 4}), "a-long-word\nb");
  EXPECT_EQ(wrapped("äöü äöü", {.width = 7}), "äöü äöü");
  EXPECT_EQ(wrapped("one two three", {}), "one two three");
  EXPECT_EQ(wrapped("", {.width = 4}), "");
}

TEST(Columns, ANarrowTerminalLeavesOutColumnsAndCutsNamesAtTheirStart) {
  const std::string text = a_table().text({.width = 40});
  EXPECT_THAT(text, Not(HasSubstr("libfoo")));
  EXPECT_THAT(text, HasSubstr("…"));
  EXPECT_THAT(text, HasSubstr("of::a::function"));
  EXPECT_THAT(text, HasSubstr("50.0 %"));
}

TEST(Columns, ColoursAreOnlyThereWhereTheScreenHasThem) {
  EXPECT_THAT(a_table().text({.width = 80}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(a_table().text({.width = 80, .has_color = true}), HasSubstr("\x1b[31mshort\x1b[0m"));
}

TEST(Columns, TextsAreCutBetweenCharacters) {
  EXPECT_EQ(end_that_fits("äöü", 3), "äöü");
  EXPECT_EQ(end_that_fits("äöü", 2), "…ü");
  EXPECT_EQ(end_that_fits("äöü", 1), "…");
  EXPECT_EQ(end_that_fits("äöü", 0), "");
}

}  // namespace
}  // namespace profd
