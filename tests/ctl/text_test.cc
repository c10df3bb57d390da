#include "ctl/output/text.h"

#include <cstddef>
#include <sstream>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "ctl/output/console.h"

namespace profd {
namespace {

TEST(Text, DurationsHaveTheirTwoLargestUnits) {
  const std::pair<double, const char*> table[] = {
      {0, "0 s"},
      {-3, "0 s"},
      {0.9, "0 s"},
      {59, "59 s"},
      {60, "1 min"},
      {61, "1 min 1 s"},
      {3599, "59 min 59 s"},
      {3600, "1 h"},
      {3661, "1 h 1 min"},
      {86399, "23 h 59 min"},
      {90000, "1 d 1 h"},
      {1e300, "11574074074 d 1 h"},
  };
  for (const auto& [seconds, text] : table) EXPECT_EQ(duration_text(seconds), text);
}

TEST(Text, BytesHaveTheLargestUnitThatFits) {
  const std::pair<std::uint64_t, const char*> table[] = {
      {0, "0 B"},
      {1023, "1023 B"},
      {1024, "1.0 KiB"},
      {1536, "1.5 KiB"},
      {std::uint64_t{40} << 20, "40.0 MiB"},
      {std::uint64_t{3} << 40, "3.0 TiB"},
      {~std::uint64_t{0}, "16777216.0 TiB"},
  };
  for (const auto& [bytes, text] : table) EXPECT_EQ(bytes_text(bytes), text);
}

TEST(Text, BarsHaveEighthsOfAColumn) {
  const std::tuple<double, std::size_t, const char*> table[] = {
      {0, 4, ""},        {1, 4, "████"},  {0.5, 4, "██"},  {0.875, 4, "███▌"}, {0.75, 2, "█▌"},
      {0.125, 1, "▏"},   {0.25, 1, "▎"},  {0.375, 1, "▍"}, {0.5, 1, "▌"},      {0.625, 1, "▋"},
      {0.75, 1, "▊"},    {0.875, 1, "▉"}, {1, 1, "█"},     {0.07, 1, "▏"},     {0.06, 1, ""},
      {0.99, 4, "████"}, {-0.5, 4, ""},   {7, 4, "████"},  {0.5, 0, ""},
  };
  for (const auto& [part, columns, bar] : table) {
    EXPECT_EQ(bar_text(part, columns), bar) << part << " of " << columns;
  }
}

TEST(Text, TimesAreParsedInOneFormOfUtc) {
  EXPECT_EQ(parse_utc("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(parse_utc("2026-01-02T03:04:05Z"), 1767323045);  // date -u -d ... +%s
  EXPECT_EQ(parse_utc("2026-01-02T03:04:05.250Z"), 1767323045);
  for (const char* text :
       {"", "now", "2026-01-02", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z"}) {
    EXPECT_FALSE(parse_utc(text)) << text;
  }
}

TEST(Text, TablesAreAlignedAndHaveNoBlanksAtTheEnd) {
  std::ostringstream out;
  print_table({{"ID", "STATE"}, {"5f2c01ab", "ended"}, {"1", ""}}, out);
  EXPECT_EQ(out.str(), "ID        STATE\n5f2c01ab  ended\n1\n");
}

TEST(Text, TheNameOfAProcessCanNotControlTheTerminal) {
  EXPECT_EQ(printable("a\x1b[2J\r\n\tb\x7f\xc3\xa9"), "a?[2J???b?\xc3\xa9");
  // U+009B starts an escape sequence, as one character and as one byte.
  EXPECT_EQ(printable("\xc2\x80\xc2\x9b"
                      "2J\xc2\x9f\xc2\xa0"),
            "??2J?\xc2\xa0");
  EXPECT_EQ(printable("\x9b"
                      "2J\xc2"),
            "\xef\xbf\xbd"
            "2J\xef\xbf\xbd");
  EXPECT_EQ(printable("a\u202ecc.tset\u2066\u200b\ufeff"), "a?cc.tset???");
}

}  // namespace
}  // namespace profd
