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
