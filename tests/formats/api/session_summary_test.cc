#include "formats/api/session_summary.h"

#include <string>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/base/json_members.h"

namespace profd {
namespace {

namespace json = boost::json;

using ::testing::ElementsAre;

SessionSummary a_summary() {
  SessionSummary summary;
  summary.session = "5f2c01ab";
  summary.started = "2026-01-02T03:04:05Z";
  summary.seconds = 5.5;
  summary.event = "cpu";
  summary.period_us = 10101;
  ProfileSummary profile;
  profile.pid = 12;
  profile.start_time_ns = 18446744073709551615u;
  profile.comm = "work";
  profile.path = "work.12.prof";
  profile.samples = 495;
  profile.stacks = 20;
  profile.user_samples = 490;
  profile.complete_samples = 480;
  profile.kernel_only_samples = 5;
  profile.incomplete = {{"depth_limit", 4}, {"no_frame_pointer", 6}};
  profile.unit = "work.service";
  summary.profiles = {profile};
  summary.ledger = {.taken = 500, .written = 495, .lost = {{"ring_full", 3}}};
  return summary;
}

// Scripts rely on the names and the order of the members (docs/api.md).
TEST(SessionSummary, TextIsAsPromised) {
  EXPECT_EQ(
      to_json(a_summary()),
      R"({"session":"5f2c01ab","started":"2026-01-02T03:04:05Z","seconds":5.5,"event":"cpu",)"
      R"("period_us":10101,"period_unit":"microseconds","profiles":[{"pid":12,)"
      R"("start_time_ns":18446744073709551615,"comm":"work","path":"work.12.prof","samples":495,)"
      R"("stacks":20,"user_samples":490,"complete_samples":480,"kernel_only_samples":5,)"
      R"("incomplete":{"depth_limit":4,"no_frame_pointer":6},"unit":"work.service",)"
      R"("container":null,"jit":null}],"ledger":{"taken":500,"written":495,"lost":{"ring_full":3},)"
      R"("difference":2}})");
}

TEST(SessionSummary, ReadBackIsEqual) {
  EXPECT_EQ(*parse_session_summary(to_json(a_summary())), a_summary());
  SessionSummary other = a_summary();
  other.seconds = 10;
  other.period_unit = "faults";
  other.profiles.clear();
  EXPECT_EQ(*parse_session_summary(to_json(other)), other);
}

SessionSummary a_summary_of_blocks() {
  SessionSummary summary = a_summary();
  summary.event = "off-cpu";
  summary.period_us = 1;
  summary.blocks = BlockSummary{.blocked = {100, 5000},
                                .sampled = {40, 3000},
                                .long_unsampled = {1, 1000},
                                .short_unsampled = {50, 900},
                                .lost = {8, 90},
                                .by_weight = {60, 800},
                                .from_before = {2, 700},
                                .ongoing = {3, 600},
                                .incomplete = {{"no_end", 4}}};
  return summary;
}

TEST(SessionSummary, TheTermsOfBlocksAreAsPromised) {
  const std::string text = to_json(a_summary_of_blocks());
  const std::string promised =
      R"("blocks":{"blocked":{"blocks":100,"us":5000},"sampled":{"blocks":40,"us":3000},)"
      R"("long_unsampled":{"blocks":1,"us":1000},"short_unsampled":{"blocks":50,"us":900},)"
      R"("lost":{"blocks":8,"us":90},"difference":10,"by_weight":{"blocks":60,"us":800},)"
      R"("from_before":{"blocks":2,"us":700},"ongoing":{"blocks":3,"us":600},)"
      R"("incomplete":{"no_end":4}}})";
  EXPECT_EQ(text.substr(text.size() - promised.size()), promised);
  EXPECT_EQ(*parse_session_summary(text), a_summary_of_blocks());
}

TEST(SessionSummary, ANameThatIsNotUtf8LeavesTheTextReadable) {
  SessionSummary summary = a_summary();
  summary.profiles[0].comm = "a\xff\x1b[2J\"";
  const auto parsed = parse_session_summary(to_json(summary));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->profiles[0].comm, "a\xef\xbf\xbd\x1b[2J\"");
  EXPECT_EQ(to_json(summary).find('\x1b'), std::string::npos);
}

TEST(SessionSummary, CutAnywhereIsAnError) {
  const std::string whole = to_json(a_summary());
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    EXPECT_FALSE(parse_session_summary(std::string_view(whole).substr(0, cut))) << cut;
  }
}

// The members of `object`, which is a part of `whole`, without which the text can be read. Values
// in `object` get new addresses.
std::vector<std::string> optional_members(const json::value& whole, json::object& object) {
  const json::object complete = object;
  std::vector<std::string> names;
  for (const json::key_value_pair& member : complete) {
    object.erase(member.key());
    if (parse_session_summary(json_text(whole))) names.emplace_back(member.key());
    object = complete;
  }
  return names;
}

TEST(SessionSummary, EveryMemberIsNeededExceptTheOptionalOnes) {
  SessionSummary summary = a_summary();
  summary.profiles[0].jit = JitNames{.runtime = "V8", .file = "/tmp/jit-12.dump"};
  summary.xray = CountsByReason{{"records", 1}};
  json::value whole = parse_json(to_json(summary), kMaxJsonDepth).value();
  ASSERT_EQ(*parse_session_summary(json_text(whole)), summary);
  json::object& session = whole.as_object();
  EXPECT_THAT(optional_members(whole, session), ElementsAre("period_unit", "xray"));
  EXPECT_THAT(optional_members(whole, session.at("ledger").as_object()), ElementsAre("difference"));
  json::array& profiles = session.at("profiles").as_array();
  EXPECT_THAT(optional_members(whole, profiles.at(0).as_object()),
              ElementsAre("unit", "container", "jit"));
  json::object& jit = profiles.at(0).as_object().at("jit").as_object();
  EXPECT_THAT(optional_members(whole, jit), ElementsAre("time_dropped"));
}

}  // namespace
}  // namespace profd
