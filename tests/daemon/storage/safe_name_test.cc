#include "daemon/storage/safe_name.h"

#include <gtest/gtest.h>

namespace profd {
namespace {

TEST(SafeName, IsTheNameOfARegularFile) {
  struct Case {
    const char* name;
    const char* safe;
  };
  const Case table[] = {
      {"libc.so.6", "libc.so.6"},
      {"c++_a-b", "c++_a-b"},
      {"", "_"},
      {".", "_"},
      {"..", "_."},
      {".hidden", "_hidden"},
      {"-rf", "_rf"},
      {"--help", "_-help"},
      {"a/b", "a_b"},
      {"a b\n\x1b[2J", "a_b___2J"},
      {"\xc3\xa9", "__"},
      {"longer-than-that", "longer-than-"},
  };
  for (const Case& c : table) EXPECT_EQ(safe_file_name(c.name, 12), c.safe) << c.name;
}

}  // namespace
}  // namespace profd
