#include "formats/proc/subuid.h"

#include <string>

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const std::map<std::string, std::uint32_t, std::less<>> kUids = {{"alice", 1000}, {"12", 1012}};

TEST(SubordinateUids, BelongToUsersByNameOrNumber) {
  EXPECT_THAT(parse_subordinate_uids("alice:100000:65536\n1001:165536:65536\n12:231072:1", kUids),
              ElementsAre(SubordinateRange{.first = 100000, .count = 65536, .owner = 1000},
                          SubordinateRange{.first = 165536, .count = 65536, .owner = 1001},
                          SubordinateRange{.first = 231072, .count = 1, .owner = 1012}));
}

// As where users come from LDAP. Without that, each of their uids would count as a user.
TEST(SubordinateUids, ANameWithoutAUidIsOneUserWithAllItsRanges) {
  EXPECT_THAT(parse_subordinate_uids("bob:100000:65536\n"
                                     "carol@example.org:165536:65536\n"
                                     "bob:231072:65536\n"
                                     "alice:296608:65536\n"
                                     "1a:400000:2\n",
                                     kUids),
              ElementsAre(SubordinateRange{.first = 100000, .count = 65536, .owner = 100000},
                          SubordinateRange{.first = 165536, .count = 65536, .owner = 165536},
                          SubordinateRange{.first = 231072, .count = 65536, .owner = 100000},
                          SubordinateRange{.first = 296608, .count = 65536, .owner = 1000},
                          SubordinateRange{.first = 400000, .count = 2, .owner = 400000}));
}

TEST(SubordinateUids, LinesOfAnotherFormAreSkipped) {
  for (const char* line : {"",
                           ":",
                           "::",
                           ":1:2",
                           "alice",
                           "alice:1",
                           "alice:1:",
                           "alice::1",
                           "alice:1:2:3",
                           "bob:0:2",
                           "alice:-1:2",
                           "alice:+1:2",
                           "alice: 1:2",
                           "alice:1:2 ",
                           "alice:0x1:2",
                           "alice:0:65536",
                           "alice:1:0",
                           "alice:4294967295:2",
                           "alice:4294967296:1",
                           "alice:1:4294967296",
                           "4294967296:1:1",
                           "-1:1:1",
                           "+bob:1:2",
                           "#alice:1:2"}) {
    EXPECT_THAT(parse_subordinate_uids(line, kUids), IsEmpty()) << line;
    EXPECT_THAT(parse_subordinate_uids(std::string(line) + "\nalice:7:1\n", kUids), SizeIs(1))
        << line;
  }
  EXPECT_THAT(parse_subordinate_uids("alice:4294967295:1\nalice:1:4294967295", kUids), SizeIs(2));
}

TEST(SubordinateUids, AVastFileIsReadInPart) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "alice:1:2\n";
  EXPECT_THAT(parse_subordinate_uids(text, kUids), SizeIs(kMaxSubordinateRanges));
}

}  // namespace
}  // namespace profd
