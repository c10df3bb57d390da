#include "formats/proc/maps.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace profd {
namespace {

// The examples of proc(5).
TEST(ProcMaps, ReadsALineOfAFile) {
  const auto line =
      parse_maps_line("00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/dbus-daemon");
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_EQ(*line, (MapsLine{0x400000, 0x452000, "r-xp", 0x1000, 8, 2, 173521,
                             "/usr/bin/dbus-daemon", false}));
}

TEST(ProcMaps, ReadsPathsOfEveryKind) {
  struct Case {
    const char* rest;
    const char* path;
    bool deleted;
  };
  for (const Case& c : {Case{"", "", false},
                        {" ", "", false},
                        {"                  [heap]", "[heap]", false},
                        {" /tmp/a b.so", "/tmp/a b.so", false},
                        {" /tmp/a\\040b\\012c\\134d", "/tmp/a b\nc\\d", false},
                        {" /tmp/a\\04", "/tmp/a\\04", false},
                        {" /tmp/a\\049", "/tmp/a\\049", false},
                        {" /tmp/x.so (deleted)", "/tmp/x.so", true},
                        {" /memfd:jit (deleted)", "/memfd:jit", true},
                        {" (deleted)", "(deleted)", false}}) {
    const auto line =
        parse_maps_line(std::string("7f0000000000-7f0000001000 rw-s 00000000 00:1f 7") + c.rest);
    ASSERT_TRUE(line) << c.rest;
    EXPECT_EQ(line->path, c.path) << c.rest;
    EXPECT_EQ(line->deleted, c.deleted) << c.rest;
  }
}

TEST(ProcMaps, ReadsEveryLineOfItsOwnProcess) {
  std::ifstream maps("/proc/self/maps");
  std::size_t lines = 0;
  for (std::string text; std::getline(maps, text); ++lines) {
    const auto line = parse_maps_line(text);
    EXPECT_TRUE(line) << text;
  }
  EXPECT_GT(lines, 5U);
}

TEST(ProcMaps, RefusesOtherLines) {
  for (const char* line :
       {"", "-", "00400000", "00400000-", "00400000-00452000",
        "00400000 00452000 r-xp 0 08:02 1 /a", "00452000-00400000 r-xp 00000000 08:02 1 /a",
        "00400000-00400000 r-xp 00000000 08:02 1 /a", "00400000-00452000 r-x 00000000 08:02 1 /a",
        "00400000-00452000 r-xp 0000000g 08:02 1 /a", "00400000-00452000 r-xp 00000000 0802 1 /a",
        "00400000-00452000 r-xp 00000000 08:02 x /a", "00400000-00452000 r-xp 00000000 08:02 1/a",
        "0x400000-00452000 r-xp 00000000 08:02 1 /a",
        "10000000000000000-20000000000000000 r-xp 00000000 08:02 1 /a",
        "00400000-00452000 r-xp 00000000 100000000:02 1 /a"}) {
    const auto parsed = parse_maps_line(line);
    ASSERT_FALSE(parsed) << line;
    EXPECT_EQ(parsed.error().code, ErrorCode::kMalformed);
  }
}

}  // namespace
}  // namespace profd
