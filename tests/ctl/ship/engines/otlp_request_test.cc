#include "ctl/ship/engines/otlp_request.h"

#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "ctl/ship/engines/engine.h"
#include "formats/base/gzip.h"
#include "tests/ctl/ship/oracle.h"

namespace profd {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string otlp_text(std::string_view request) {
  const std::string text =
      test::output_for(request, std::string("protoc --proto_path=") + SHIP_SCHEMA_DIRECTORY +
                                    " --decode=otlp.ExportProfilesServiceRequest otlp.proto");
  return std::regex_replace(text, std::regex("version: \"[^\"]*\""), "version: V");
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// One sample of one frame, by one thread.
PprofProfile a_profile(std::int64_t cpu_time = 30) {
  PprofProfile profile({{"samples", "count"}, {"cpu", "nanoseconds"}}, 1);
  profile.period_type = {"cpu", "nanoseconds"};
  profile.period = 10;
  profile.time_ns = 5;
  profile.duration_ns = 7;
  const auto file = profile.add_text("/bin/x");
  const auto build_id = profile.add_text("abcd");
  const auto mapping = profile.add_mapping(
      {.start = 4096, .limit = 8192, .file_offset = 0, .file = file, .build_id = build_id});
  const auto name = profile.add_text("f");
  const auto system_name = profile.add_text("_Zf");
  const auto source = profile.add_text("f.cc");
  const auto function = profile.add_function(
      {.name = name, .system_name = system_name, .file = source, .start_line = 3});
  const PprofLine line{.function = function, .line = 12};
  const auto location = profile.add_location({.address = 4100, .mapping = mapping}, {&line, 1});
  const auto key = profile.add_text("thread");
  const auto thread = profile.add_text("pool-#");
  const auto labels = profile.add_labels({{.key = key, .text = thread}});
  profile.add_sample({.labels = labels, .stack = profile.add_stack({&location, 1})},
                     std::vector<std::int64_t>{3, cpu_time});
  return profile;
}

constexpr const char* kRequest = R"(resource_profiles {
  resource {
    attributes {
      key: "host.name"
      value {
        string_value: "h"
      }
    }
    attributes {
      key: "service.name"
      value {
        string_value: "web"
      }
    }
    attributes {
      key: "team"
      value {
        string_value: "edge"
      }
    }
  }
  scope_profiles {
    scope {
      name: "profd"
      version: V
    }
    profiles {
      sample_type {
        type_strindex: 10
        unit_strindex: 11
      }
      samples {
        stack_index: 1
        attribute_indices: 1
        values: 3
      }
      time_unix_nano: 5
      duration_nano: 7
      period_type {
        type_strindex: 12
        unit_strindex: 13
      }
      period: 10
    }
  }
}
dictionary {
  mapping_table {
  }
  mapping_table {
    memory_start: 4096
    memory_limit: 8192
    filename_strindex: 1
    attribute_indices: 2
  }
  location_table {
  }
  location_table {
    mapping_index: 1
    address: 4100
    lines {
      function_index: 1
      line: 12
    }
  }
  function_table {
  }
  function_table {
    name_strindex: 3
    system_name_strindex: 4
    filename_strindex: 5
    start_line: 3
  }
  link_table {
    trace_id: "\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000"
    span_id: "\000\000\000\000\000\000\000\000"
  }
  string_table: ""
  string_table: "/bin/x"
  string_table: "abcd"
  string_table: "f"
  string_table: "_Zf"
  string_table: "f.cc"
  string_table: "thread"
  string_table: "pool-#"
  string_table: "thread.name"
  string_table: "process.executable.build_id.gnu"
  string_table: "samples"
  string_table: "count"
  string_table: "cpu"
  string_table: "nanoseconds"
  attribute_table {
  }
  attribute_table {
    key_strindex: 8
    value {
      string_value: "pool-#"
    }
  }
  attribute_table {
    key_strindex: 9
    value {
      string_value: "abcd"
    }
  }
  stack_table {
  }
  stack_table {
    location_indices: 1
  }
}
)";

TEST(OtlpRequestTest, IsAResourceWithItsProfileAndADictionary) {
  const SeriesLabels labels{
      {"__name__", "process_cpu"}, {"host", "h"}, {"service_name", "web"}, {"team", "edge"}};
  EXPECT_EQ(otlp_text(encode_otlp_request(labels, a_profile())), kRequest);
}

TEST(OtlpRequestTest, ValuesThatAreNotThePeriodsAreAProfileOfEachType) {
  const std::string text = otlp_text(encode_otlp_request({}, a_profile(31)));
  EXPECT_EQ(count_of(text, "    profiles {"), 2U);
  EXPECT_THAT(text, HasSubstr("values: 3\n"));
  EXPECT_THAT(text, HasSubstr("values: 31\n"));
}

// Pyroscope knows off_cpu without a type of period, and adds the values up.
TEST(OtlpRequestTest, TimesOffTheCpuHaveNoPeriodAndNoNumber) {
  PprofProfile profile({{"blocks", "count"}, {"off_cpu", "nanoseconds"}}, 1);
  profile.period_type = {"off_cpu", "nanoseconds"};
  profile.period = 1;
  const auto name = profile.add_text("f");
  const PprofLine line{.function = profile.add_function({.name = name, .system_name = name})};
  const auto location = profile.add_location({}, {&line, 1});
  profile.add_sample({.labels = profile.add_labels({}), .stack = profile.add_stack({&location, 1})},
                     std::vector<std::int64_t>{3, 700});
  const std::string text = otlp_text(encode_otlp_request({}, std::move(profile)));
  EXPECT_EQ(count_of(text, "    profiles {"), 1U);
  EXPECT_THAT(text, HasSubstr("values: 700\n"));
  EXPECT_THAT(text, HasSubstr("string_table: \"off_cpu\"\n"));
  EXPECT_THAT(text, Not(HasSubstr("values: 3\n")));
  EXPECT_THAT(text, Not(HasSubstr("period")));
}

TEST(OtlpRequestTest, AnEntryWithoutContentKeepsItsPlace) {
  PprofProfile profile = a_profile();
  const PprofLine line{.function = profile.add_function({})};
  const auto location = profile.add_location({}, {&line, 1});
  profile.add_sample({.labels = profile.add_labels({}), .stack = profile.add_stack({&location, 1})},
                     std::vector<std::int64_t>{1, 10});
  const std::string text = otlp_text(encode_otlp_request({}, std::move(profile)));
  EXPECT_EQ(count_of(text, "  function_table {"), 3U);
  EXPECT_THAT(text, HasSubstr("function_index: 2\n"));
}

TEST(OtlpRequestTest, SamplesWithoutValueAreLeftOut) {
  PprofProfile profile = a_profile();
  profile.add_sample({.labels = profile.add_labels({}), .stack = 0},
                     std::vector<std::int64_t>{0, 0});
  EXPECT_EQ(count_of(otlp_text(encode_otlp_request({}, std::move(profile))), "  samples {"), 1U);
}

TEST(OtlpRequestTest, ARejectionIsRead) {
  const std::string answer =
      "\x0a\x09\x08\x03\x12\x05"
      "wrong";
  EXPECT_EQ(read_otlp_rejection(answer).profiles, 3);
  EXPECT_EQ(read_otlp_rejection(answer).message, "wrong");
  EXPECT_FALSE(read_otlp_rejection(answer).is_malformed);
  for (std::size_t length = 0; length < answer.size(); ++length) {
    const OtlpRejection cut = read_otlp_rejection(answer.substr(0, length));
    EXPECT_EQ(cut.is_malformed, length > 0) << length;
    EXPECT_EQ(cut.profiles, length < 4 ? 0 : 3) << length;
    EXPECT_EQ(cut.message, "") << length;
  }
  EXPECT_EQ(read_otlp_rejection("\x12\x01x").profiles, 0);
  EXPECT_FALSE(read_otlp_rejection("\x12\x01x").is_malformed);
}

TEST(OtlpEngineTest, ARequestIsPackedAndHasTheTenant) {
  const auto engine = make_otlp_engine("t");
  const std::string encoded = engine->encode({}, a_profile());
  EXPECT_EQ(encoded, encode_otlp_request({}, a_profile()));
  const PushMessage message = engine->profile_request({}, encoded);
  EXPECT_EQ(message.path, "/v1development/profiles");
  EXPECT_EQ(message.content_type, "application/x-protobuf");
  EXPECT_THAT(message.headers, testing::ElementsAre(testing::Pair("Content-Encoding", "gzip"),
                                                    testing::Pair("X-Scope-OrgID", "t")));
  EXPECT_EQ(*unpack_gzip(message.body, 1 << 20), encoded);
}

TEST(OtlpEngineTest, AnswersAreThoseOfTheSpecification) {
  const auto engine = make_otlp_engine("");
  PushReply reply;
  reply.reached = PushReply::Reached::kAnswered;
  reply.status = 200;
  reply.content_type = "text/plain";
  reply.body = "OK";
  EXPECT_EQ(engine->classify(reply).kind, PushOutcome::Kind::kLater) << "no answer of OTLP";
  reply.body.clear();
  reply.content_type = "application/x-protobuf";
  EXPECT_EQ(engine->classify(reply).kind, PushOutcome::Kind::kStored);
  reply.body =
      "\x0a\x08\x08\x01\x12\x04"
      "sum\x1b";
  const PushOutcome rejected = engine->classify(reply);
  EXPECT_EQ(rejected.kind, PushOutcome::Kind::kRefused);
  EXPECT_THAT(rejected.error.message, HasSubstr("rejected 1 profiles of a request: sum\\x1b"));
  reply.body.resize(4);  // with what was rejected
  EXPECT_EQ(engine->classify(reply).kind, PushOutcome::Kind::kRefused);
  reply.body.resize(3);
  EXPECT_EQ(engine->classify(reply).kind, PushOutcome::Kind::kUnknown);
  EXPECT_NE(engine->classify(reply).error.message, "");
  reply.body = "{}";
  reply.content_type = "application/json";
  EXPECT_EQ(engine->classify(reply).kind, PushOutcome::Kind::kStored);
  reply.content_type = "";
  reply.status = 500;
  EXPECT_EQ(engine->classify(reply).kind, PushOutcome::Kind::kRefused);
  reply.status = 503;
  EXPECT_EQ(engine->classify(reply).kind, PushOutcome::Kind::kLater);
  reply.status = 400;
  reply.content_type = "application/x-protobuf";
  reply.body =
      "\x08\x03\x12\x03"
      "why";
  EXPECT_THAT(engine->classify(reply).error.message, HasSubstr("answered 400: why"));
  reply.status = 404;
  EXPECT_THAT(engine->classify(reply).error.message, HasSubstr("v1development/profiles"));
  EXPECT_THAT(engine->classify(reply).error.message, Not(HasSubstr("Pyroscope")));
}

}  // namespace
}  // namespace profd
