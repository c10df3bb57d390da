#include "formats/base/utf8_text.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "formats/base/json_text.h"

namespace profd {
namespace {

struct Case {
  std::string text;
  std::string valid;
};

TEST(Utf8Text, LeavesValidTextsUnchanged) {
  for (const std::string text :
       {"", "main", "a long name of a function, over eight bytes", "gr\u00fc\u00df", "\u65e5\u672c",
        "\U0001F600 tail of the text", "\u0001\t\n"}) {
    EXPECT_TRUE(is_valid_utf8(text));
    EXPECT_EQ(valid_utf8(text, 100), text);
  }
  EXPECT_TRUE(is_valid_utf8(std::string("nul\0inside", 10)));
}

TEST(Utf8Text, ReplacesMalformedSequences) {
  const std::vector<Case> cases = {
      {"\xff", "\uFFFD"},
      {"abcdefgh\x80", "abcdefgh\uFFFD"},
      {"a\xc3", "a\uFFFD"},        // ends inside a character
      {"\xe2\x82 x", "\uFFFD x"},  // 2 of 3 bytes
      {"\xc3(", "\uFFFD("},        // the byte after it is kept
      {"caf\xe9", "caf\uFFFD"},    // Latin-1
      {"\u00fc\xfe\u00fc", "\u00fc\uFFFD\u00fc"},
  };
  for (const Case& test : cases) {
    EXPECT_FALSE(is_valid_utf8(test.text));
    EXPECT_EQ(valid_utf8(test.text, 100), test.valid);
  }
}

TEST(Utf8Text, JsonKeepsTheCharactersAfterAMalformedSequence) {
  EXPECT_EQ(json_text(boost::json::value("n\xe9t")), "\"n\uFFFDt\"");
}

// Overlong forms, surrogates, and what is above U+10FFFF.
TEST(Utf8Text, RefusesWhatIsNoCharacter) {
  for (const std::string text : {"\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xed\xa0\x80",
                                 "\xed\xbf\xbf", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80"}) {
    EXPECT_FALSE(is_valid_utf8(text));
    EXPECT_TRUE(is_valid_utf8(valid_utf8(text, 100)));
  }
}

TEST(Utf8Text, CutsBetweenCharacters) {
  EXPECT_EQ(valid_utf8("0123456789", 10), "0123456789");
  EXPECT_EQ(valid_utf8("0123456789a", 10), "0123456...");
  EXPECT_EQ(valid_utf8("01234\u20ac\u20ac\u20ac", 10), "01234...");
  EXPECT_EQ(valid_utf8("0123\u20ac\u20ac\u20ac", 10), "0123\u20ac...");
  EXPECT_EQ(valid_utf8(std::string(1000, '\xff'), 10), "\uFFFD\uFFFD...");
  EXPECT_EQ(valid_utf8(std::string(1000, 'x'), 3), "...");
}

// Each byte sequence of up to three bytes around the borders of the encoding, cut at each length.
TEST(Utf8Text, MakesAnyBytesValidOnceAndForAll) {
  const std::string bytes = "\x7f\x80\xbf\xc0\xc2\xdf\xe0\xed\xef\xf0\xf4\xf5\xff";
  for (const char a : bytes) {
    for (const char b : bytes) {
      for (const char c : bytes) {
        const std::string text{a, b, c, 'x', a, b, c, '\x80', '\x80', c};
        for (std::size_t max = 3; max < 32; max += 5) {
          const std::string valid = valid_utf8(text, max);
          EXPECT_TRUE(is_valid_utf8(valid));
          EXPECT_LE(valid.size(), max);
          EXPECT_EQ(valid_utf8(valid, max), valid);
        }
      }
    }
  }
}

// They reverse a line on a terminal, or are invisible.
TEST(Utf8Text, FormatCharactersBecomeQuestionMarks) {
  for (const std::string text :
       {"\u00ad", "\u061c", "\u200b", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202e",
        "\u2060", "\u2066", "\u2069", "\ufeff", "\ufff9", "\U000e0001", "\U000e0041"}) {
    const std::string name = "evil" + text + "cc";
    EXPECT_TRUE(has_controls(name)) << name;
    EXPECT_FALSE(is_printable(name)) << name;
    EXPECT_EQ(without_controls(name), "evil?cc");
    EXPECT_EQ(printable_utf8(name, 100), "evil?cc");
  }
  const std::string plain =
      "\u00ac\u00ae\u061b\u061d\u200a\u2010\u2027\u202f\u205f\u2070\ufefe\u65e5";
  EXPECT_FALSE(has_controls(plain));
  EXPECT_EQ(without_controls(plain), plain);
  EXPECT_EQ(without_controls("\xe2\x80"), "\xe2\x80") << "a cut character is no control";
}

TEST(Utf8Text, ControlCharactersBecomeQuestionMarks) {
  const std::string plain = "std::map<int, \u00e9\u00a0\u20ac>";
  EXPECT_FALSE(has_controls(plain));
  EXPECT_EQ(without_controls(plain), plain);
  const std::string text = std::string("a\tb\nc\x1b[0m\x7f\u0080\u009f\u00a0", 16) + '\0';
  EXPECT_TRUE(has_controls("\u009f"));
  EXPECT_TRUE(has_controls(std::string(1, '\0')));
  EXPECT_EQ(without_controls(text), "a?b?c?[0m???\u00a0?");
  // A lone byte of such a character is not one; valid_utf8() replaces it.
  EXPECT_FALSE(has_controls("\xc2"));
  EXPECT_FALSE(has_controls("\xc2z"));
}

TEST(Utf8Text, APrintableTextStaysAndAnyOtherBecomesOne) {
  const std::string plain = "std::map<int, \u00e9\u00a0\u20ac>~";
  EXPECT_TRUE(is_printable(plain));
  EXPECT_EQ(printable_utf8(plain, 100), plain);
  EXPECT_EQ(printable_utf8(plain, 10), "std::ma...");
  EXPECT_EQ(printable_utf8("a\x1b]0;x\a\xff\u009b", 100), "a?]0;x?\uFFFD?");
  // Each byte at each place of a word, beside the characters at the borders.
  for (int byte = 0; byte < 256; ++byte) {
    for (std::size_t at = 0; at < 9; ++at) {
      std::string text = " ~ ~ ~ ~ ";
      text[at] = static_cast<char>(byte);
      EXPECT_EQ(is_printable(text), byte >= 0x20 && byte < 0x7f) << byte << " at " << at;
      EXPECT_TRUE(is_printable(printable_utf8(text, 100)));
    }
  }
}

}  // namespace
}  // namespace profd
