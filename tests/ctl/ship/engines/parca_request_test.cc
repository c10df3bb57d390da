#include "ctl/ship/engines/parca_request.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "ctl/ship/engines/engine.h"
#include "formats/base/gzip.h"
#include "formats/profile/pprof_writer.h"
#include "tests/ctl/ship/a_window.h"
#include "tests/ctl/ship/oracle.h"

namespace profd {
namespace {

using testing::HasSubstr;

// Python's decoder: the members in their order, the labels, and the profile.
std::string write_raw_text(const std::string& request) {
  return test::output_for(request, R"(/usr/bin/python3 -c '
import base64, gzip, json, sys
request = json.load(sys.stdin)
series, = request["series"]
sample, = series["samples"]
print(list(request), list(series), list(sample), request["normalized"])
for pair in series["labels"]["labels"]:
    print(list(pair), pair["name"], ascii(pair["value"]))
print(gzip.decompress(base64.b64decode(sample["rawProfile"], validate=True)).decode(), end="")
')");
}

TEST(ParcaRequestTest, IsTheJsonOfASeriesWithOneProfile) {
  const SeriesLabels labels{{"__name__", "process_cpu"}, {"host", "h"}, {"x", "a\"\\\n\xc3\xa9"}};
  EXPECT_EQ(write_raw_text(encode_write_raw(labels, pack_gzip("the bytes?", 6))),
            "['series', 'normalized'] ['labels', 'samples'] ['rawProfile'] True\n"
            "['name', 'value'] __name__ 'process_cpu'\n"
            "['name', 'value'] host 'h'\n"
            "['name', 'value'] x 'a\"\\\\\\n\\xe9'\n"
            "['name', 'value'] node 'h'\n"
            "the bytes?");
}

TEST(ParcaRequestTest, EveryLengthOfAProfileIsWhole) {
  for (std::size_t length = 0; length < 7; ++length) {
    const std::string profile(length, 'p');
    EXPECT_THAT(write_raw_text(encode_write_raw({{"node", "n"}}, pack_gzip(profile, 1))),
                testing::EndsWith("node 'n'\n" + profile))
        << length;
  }
}

TEST(ParcaRequestTest, LabelsThatPrometheusDoesNotHaveAreRefused) {
  EXPECT_TRUE(check_parca_labels({{"__name__", "a"}, {"_a1", ""}}));
  EXPECT_FALSE(check_parca_labels({{"a", "a"}}));
  for (const char* name : {"", "1a", "a.b", "a-b", "\xc3\xa9"}) {
    EXPECT_FALSE(check_parca_labels({{"__name__", "a"}, {name, "a"}})) << name;
  }
  EXPECT_FALSE(check_parca_labels({{"__name__", "a"}, {"a", "\xff"}}));
}

TEST(ParcaEngineTest, TheProfileIsOneOfPprof) {
  test::AWindow window;
  window.add(1, "a", "-", "f", 3);
  const std::string bytes = encode_pprof(window.profile);
  const auto engine = make_parca_engine();
  EXPECT_EQ(engine->encode({{"a", "b"}}, std::move(window.profile)), bytes);
  const PushMessage message = engine->profile_request({{"a", "b"}}, bytes);
  EXPECT_EQ(message.path, "/api/profiles/writeraw");
  EXPECT_EQ(message.content_type, "application/json");
  EXPECT_EQ(message.body, encode_write_raw({{"a", "b"}}, pack_gzip(bytes, 6)));
}

TEST(ParcaEngineTest, ErrorsAreThoseOfTheGateway) {
  const auto engine = make_parca_engine();
  PushReply reply;
  reply.reached = PushReply::Reached::kAnswered;
  reply.status = 400;
  reply.content_type = "application/json";
  reply.body = R"({"code":3,"message":"missing __name__ label","details":[]})";
  EXPECT_EQ(engine->classify(reply).kind, PushOutcome::Kind::kRefused);
  EXPECT_THAT(engine->classify(reply).error.message, HasSubstr("400: missing __name__ label"));
  reply.status = 503;
  EXPECT_EQ(engine->classify(reply).kind, PushOutcome::Kind::kLater);
  reply.status = 200;
  reply.body = "{}";
  EXPECT_EQ(engine->classify(reply).kind, PushOutcome::Kind::kStored);
  // Its own page answers for each path that it does not know.
  reply.content_type = "text/html; charset=utf-8";
  EXPECT_THAT(engine->classify(reply).error.message, HasSubstr("no Parca"));
}

}  // namespace
}  // namespace profd
