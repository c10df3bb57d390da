#include "formats/base/log_text.h"

#include <string>

#include <gtest/gtest.h>

namespace profd {
namespace {

TEST(LogText, IsOneLineOfPrintableAscii) {
  struct Case {
    std::string text;
    std::string logged;
  };
  const Case table[] = {
      {"", ""},
      {"comm nginx, pid 7", "comm nginx, pid 7"},
      {"a\nprofd: b", "a\\x0aprofd: b"},
      {"\x1b[2J\x7f", "\\x1b[2J\\x7f"},
      {"\xc2\x9b", "\\xc2\\x9b"},  // a control character of Unicode
      {std::string(1, '\0'), "\\x00"},
      {"\\x0a", "\\x5cx0a"},
  };
  for (const Case& c : table) EXPECT_EQ(log_text(c.text), c.logged);
}

TEST(LogText, IsCutTo200Bytes) {
  EXPECT_EQ(log_text(std::string(200, 'a')), std::string(200, 'a'));
  EXPECT_EQ(log_text(std::string(201, 'a')), std::string(200, 'a') + "...");
  EXPECT_EQ(log_text(std::string(199, 'a') + "\n"), std::string(199, 'a') + "...");
}

}  // namespace
}  // namespace profd
