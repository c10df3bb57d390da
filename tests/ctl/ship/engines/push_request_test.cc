#include "ctl/ship/engines/push_request.h"

#include <regex>
#include <string>

#include <gmock/gmock.h>

#include "formats/base/gzip.h"

namespace profd {
namespace {

// By hand, from the field numbers: tag (number << 3 | 2), length, bytes.
TEST(PushRequestTest, IsASeriesWithItsLabelsAndOneProfile) {
  const std::string series =
      "\x0a\x06\x0a\x01"
      "a\x12\x01"
      "b"  // LabelPair
      "\x12\x07\x0a\x01"
      "p\x12\x02"
      "id";  // RawSample
  EXPECT_EQ(encode_push_request({{"a", "b"}}, "p", "id"),
            "\x0a" + std::string(1, static_cast<char>(series.size())) + series);
}

TEST(PushRequestTest, ARequestIsPackedAndHasItsTenant) {
  const PushMessage message = pyroscope_message("team-a", std::string(1000, 'x'));
  EXPECT_EQ(message.path, "/push.v1.PusherService/Push");
  EXPECT_EQ(message.content_type, "application/proto");
  EXPECT_THAT(message.headers,
              testing::UnorderedElementsAre(testing::Pair("Connect-Protocol-Version", "1"),
                                            testing::Pair("Content-Encoding", "gzip"),
                                            testing::Pair("X-Scope-OrgID", "team-a")));
  EXPECT_LT(message.body.size(), 100U);
  EXPECT_EQ(*unpack_gzip(message.body, 1000), std::string(1000, 'x'));
  EXPECT_EQ(pyroscope_message("", "x").headers.size(), 2U);
}

TEST(PushRequestTest, LabelsOverALimitAreRefused) {
  SeriesLabels labels;
  for (int i = 0; i < 30; ++i) labels["l" + std::to_string(i)] = "x";
  EXPECT_TRUE(check_labels(labels));
  labels["one_more"] = "x";
  EXPECT_FALSE(check_labels(labels));
  EXPECT_TRUE(check_labels({{"a", std::string(2048, 'x')}}));
  EXPECT_FALSE(check_labels({{"a", std::string(2049, 'x')}}));
  EXPECT_FALSE(check_labels({{std::string(1025, 'x'), "a"}}));
  EXPECT_FALSE(check_labels({{"a", "\xff"}}));
  EXPECT_FALSE(check_labels({{"", "a"}}));
  for (const SeriesLabels& refused :
       {labels, SeriesLabels{{"a", "\xff"}}, SeriesLabels{{"", "a"}}}) {
    EXPECT_THAT(check_labels(refused).error().hint, testing::HasSubstr("[[service]] rule"));
  }
}

TEST(PushRequestTest, AnIdIsAUuidOfVersionFour) {
  const std::regex form("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(std::regex_match(make_uuid(), form)) << make_uuid();
  EXPECT_NE(make_uuid(), make_uuid());
}

}  // namespace
}  // namespace profd
