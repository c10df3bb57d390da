#include "formats/base/utf8_text.h"

#include <string>

#include <gtest/gtest.h>

#include "formats/base/json_text.h"
#include "formats/base/utf8_repair.h"

namespace profd {
namespace {

constexpr const char* kReplaced = "\xef\xbf\xbd";

TEST(Utf8, KnowsMalformedText) {
  for (const char* valid : {"", "a", "eight bytes and more", "n\xc3\xa9t", "\xf0\x9f\x92\xa9"}) {
    EXPECT_TRUE(is_valid_utf8(valid)) << valid;
  }
  for (const char* malformed :
       {"n\xe9t", "\x80", "\xc3", "eight bytes \xff", "\xed\xa0\x80", "\xc0\xaf"}) {
    EXPECT_FALSE(is_valid_utf8(malformed)) << malformed;
  }
}

TEST(Utf8, LongTextIsCutBetweenTwoCharacters) {
  EXPECT_EQ(valid_utf8("abcdef", 6), "abcdef");
  EXPECT_EQ(valid_utf8("abcdefg", 6), "abc...");
  EXPECT_EQ(valid_utf8("ab\xc3\xa9xyz", 6), "ab...");
}

TEST(Utf8, RepairReplacesTheInvalidBytesAlone) {
  const std::string r = kReplaced;
  EXPECT_EQ(repaired_utf8("n\xc3\xa9t"), "n\xc3\xa9t");
  EXPECT_EQ(repaired_utf8("n\xe9t"), "n" + r + "t");
  EXPECT_EQ(repaired_utf8("\xc3"), r);
  EXPECT_EQ(repaired_utf8("\xe2\x82!\xc3\xa9"), r + r + "!\xc3\xa9");
  EXPECT_EQ(repaired_utf8("\xff\xfe"
                          "a"),
            r + r + "a");
}

TEST(Utf8, JsonKeepsTheBytesAfterAnInvalidOne) {
  EXPECT_EQ(json_text(boost::json::value("n\xe9t")), std::string("\"n") + kReplaced + "t\"");
}

}  // namespace
}  // namespace profd
