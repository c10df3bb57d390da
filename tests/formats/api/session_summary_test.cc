#include "formats/api/session_summary.h"

#include <string>

#include <gtest/gtest.h>

namespace profd {
namespace {

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

// Field names and order as README and docs/api.md promise them to scripts.
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

TEST(SessionSummary, ANameThatIsNoTextDoesNotSpoilTheRest) {
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

// The error names the member, so it is not an error about something else.
TEST(SessionSummary, EveryMemberThatIsNeverNullIsNeeded) {
  for (const std::string member : {"session",
                                   "started",
                                   "seconds",
                                   "event",
                                   "period_us",
                                   "profiles",
                                   "ledger",
                                   "taken",
                                   "written",
                                   "lost",
                                   "pid",
                                   "start_time_ns",
                                   "comm",
                                   "path",
                                   "samples",
                                   "stacks",
                                   "user_samples",
                                   "complete_samples",
                                   "kernel_only_samples",
                                   "incomplete"}) {
    const std::string name = '"' + member + "\":";
    std::string text = to_json(a_summary());
    text.replace(text.find(name), name.size(), "\"x\":");
    const auto parsed = parse_session_summary(text);
    ASSERT_FALSE(parsed) << member;
    EXPECT_TRUE(parsed.error().message.find(member) != std::string::npos) << parsed.error().message;
  }
}

}  // namespace
}  // namespace profd
