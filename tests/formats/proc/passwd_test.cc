#include "formats/proc/passwd.h"

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(PasswdTest, EachUidHasTheNameOfItsFirstLine) {
  EXPECT_THAT(parse_user_names("root:x:0:0:root:/root:/bin/bash\n"
                               "toor:x:0:0::/root:/bin/sh\n"
                               "www-data:x:33:33::/var/www:/usr/sbin/nologin"),
              ElementsAre(Pair(0, "root"), Pair(33, "www-data")));
}

TEST(PasswdTest, LinesOfAnotherFormAreSkipped) {
  for (const char* line : {"", "\n\n", "root", "root:x", "root:x:", "root:x:-1:0", "root:x:1a:0",
                           ":x:5:5::/:/bin/sh", "a:x:4294967296:0", "+::::::", "#comment"}) {
    EXPECT_TRUE(parse_user_names(line).empty()) << line;
  }
}

}  // namespace
}  // namespace profd
