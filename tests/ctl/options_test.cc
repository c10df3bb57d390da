#include "ctl/options/options.h"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "ctl/options/values.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

Options parsed(const Words& words) {
  auto result = parse_options(words);
  EXPECT_TRUE(result) << ::testing::PrintToString(words) << result.error().message;
  return result ? std::get<Options>(*result) : Options();
}

TEST(Options, TakesAPeriodInPlaceOfAFrequency) {
  const Options options = parsed({"start", "-a", "-e", "page-faults", "--period", "100"});
  EXPECT_EQ(options.request.period, 100u);
  EXPECT_EQ(options.request.frequency_hz, 0u);
}

TEST(Options, TargetsAreCollectedFromEveryForm) {
  const Options options = parsed({"start", "-p", "1,2", "--pid", "3", "--pid=4", "-n", "nginx",
                                  "--comm", "a b", "-G", "/sys/fs/cgroup/system.slice", "--cgroup",
                                  "/x", "--uid", "1000", "--uid", "root", "--no-children"});
  EXPECT_EQ(options.verb, Verb::kStart);
  const TargetRequest& target = options.request.target;
  EXPECT_THAT(target.pids, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(target.comms, ElementsAre("nginx", "a b"));
  EXPECT_THAT(target.cgroups, ElementsAre("/system.slice", "/x"));
  EXPECT_THAT(target.uids, ElementsAre(1000, 0));
  EXPECT_FALSE(target.all);
  EXPECT_FALSE(options.request.children);
}

TEST(Options, WhatIsNotGivenIsLeftToTheDaemon) {
  StartRequest expected;
  expected.target.all = true;
  EXPECT_EQ(parsed({"start", "-a"}).request, expected);
}

TEST(Options, SamplingOptionsReachTheRequest) {
  const Options options =
      parsed({"record", "-a", "-e", "page-faults", "-F", "499", "-d", "1.5s", "-o", "out"});
  EXPECT_EQ(options.verb, Verb::kRecord);
  EXPECT_EQ(options.request.event, "page-faults");
  EXPECT_EQ(options.request.frequency_hz, 499u);
  EXPECT_EQ(options.request.duration_ms, 1500u);
  EXPECT_EQ(options.output, "out");
}

TEST(Options, RuntimesAreAskedWhereTheirPidsAreGiven) {
  EXPECT_TRUE(parsed({"start", "--pid", "1", "--ask-runtime"}).ask_runtime);
  EXPECT_TRUE(parsed({"record", "--pid", "1", "--ask-runtime"}).ask_runtime);
  EXPECT_TRUE(parsed({"stop", "4f0c2a19", "--ask-runtime"}).ask_runtime);
  EXPECT_FALSE(parsed({"record", "--pid", "1"}).ask_runtime);
  for (const Words& words : {Words{"record", "-a", "--ask-runtime"},
                             Words{"record", "--ask-runtime", "--", "java", "Main"}}) {
    const auto result = parse_options(words);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, HasSubstr("--pid"));
  }
}

TEST(Options, EverythingBehindTheDashesIsTheCommand) {
  const Options options = parsed({"record", "-F", "99", "--", "ls", "-a", "--", "--json", "x"});
  EXPECT_THAT(options.command, ElementsAre("ls", "-a", "--", "--json", "x"));
  EXPECT_FALSE(options.json);
  EXPECT_FALSE(options.request.target.all);
}

TEST(Options, SocketAndJsonMayStandBeforeOrBehindTheVerb) {
  for (const Words& words :
       {Words{"--json", "--socket", "/s", "status"}, Words{"status", "--json", "--socket", "/s"}}) {
    const Options options = parsed(words);
    EXPECT_TRUE(options.json);
    EXPECT_EQ(options.socket, "/s");
  }
}

TEST(Options, TheSocketComesFromTheEnvironmentUnlessGiven) {
  ASSERT_EQ(::setenv("PROFD_SOCKET", "/from/environment", 1), 0);
  EXPECT_EQ(parsed({"status"}).socket, "/from/environment");
  EXPECT_EQ(parsed({"status", "--socket", "/given"}).socket, "/given");
  ASSERT_EQ(::unsetenv("PROFD_SOCKET"), 0);
  EXPECT_EQ(parsed({"status"}).socket, "/run/profd/profd.sock");
}

TEST(Options, HelpStartsWithExamples) {
  for (const char* flag : {"--help", "-h"}) {
    const auto result = parse_options({flag});
    ASSERT_TRUE(result);
    EXPECT_THAT(std::get<HelpText>(*result).text, StartsWith("Examples:\n  profctl start --pid"));
  }
  const auto verb = parse_options({"record", "--help"});
  ASSERT_TRUE(verb);
  EXPECT_THAT(std::get<HelpText>(*verb).text, HasSubstr("profctl record"));
}

TEST(Options, HelpNamesTheDirectoryThatIsWrittenToByDefault) {
  const std::pair<const char*, const char*> table[] = {{"stop", "[./profd-ID]"},
                                                       {"record", "[./profd-ID]"},
                                                       {"dump", "[./profd-RESULT,"},
                                                       {"export", "[./profd-RESULT,"}};
  for (const auto& [verb, directory] : table) {
    const auto help = parse_options({verb, "--help"});
    ASSERT_TRUE(help);
    EXPECT_THAT(std::get<HelpText>(*help).text, HasSubstr(directory)) << verb;
  }
}

TEST(Options, AVerbThatIsNoneHasTheNearest) {
  const std::tuple<Words, const char*, const char*> table[] = {
      {{"dance"}, "no such verb: dance", "--help"},
      {{"statsu"}, "no such verb: statsu", "did you mean status?"},
      {{"exprot", "--last", "1h"}, "no such verb: exprot", "export"},
      {{"--json", "lst"}, "no such verb: lst", "list"},
  };
  for (const auto& [words, message, hint] : table) {
    const auto result = parse_options(words);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message, message);
    EXPECT_THAT(result.error().hint, HasSubstr(hint));
  }
}

TEST(Options, WhatMakesNoSenseIsOneCauseAndAHint) {
  const std::pair<Words, const char*> table[] = {
      {{}, "verb"},
      {{"dance"}, "dance"},
      {{"start"}, "target"},
      {{"start", "extra", "-a"}, "extra"},
      {{"start", "-a", "--unknown"}, "--unknown"},
      {{"start", "--pid"}, "--pid"},
      {{"start", "--pid", "0"}, "\"0\""},
      {{"start", "--pid", "-1"}, "-1"},
      {{"start", "--pid", "x"}, "\"x\""},
      {{"start", "--pid", "0x10"}, "0x10"},
      {{"start", "--pid", "99999999999"}, "99999999999"},
      {{"start", "--pid", "1", "2"}, "2"},
      {{"start", "--uid", "no such user"}, "no such user"},
      {{"start", "-a", "-F", "0"}, "\"0\""},
      {{"start", "-a", "-F", ""}, "\"\""},
      {{"start", "-a", "-F", "1e9"}, "1e9"},
      {{"start", "-a", "-F", "-5"}, "-5"},
      {{"start", "-a", "--period", "0"}, "\"0\""},
      {{"start", "-a", "--period", "often"}, "often"},
      {{"start", "-a", "-d", "yesterday"}, "yesterday"},
      {{"start", "-a", "-d", ""}, "\"\""},
      {{"start", "-a", "--", "ls"}, "--"},
      {{"stop"}, "session"},
      {{"stop", "a", "b"}, "b"},
      {{"status", "--"}, "--"},
      {{"record"}, "target"},
      {{"record", "--"}, "--"},
      {{"record", "-a", "--", "ls"}, "exclude"},
      {{"export"}, "time"},
      {{"export", "-o", "x"}, "time"},
      {{"export", "--last", "soon"}, "soon"},
      {{"export", "--last", "0"}, "0"},
      {{"export", "--last", ""}, "\"\""},
      {{"export", "--since", "14:61"}, "14:61"},
      {{"export", "--last", "1h", "--since", "now"}, "--last"},
      {{"export", "--since", "now", "--until", "yesterday"}, "range"},
      {{"export", "--last", "1h", "-p", "x"}, "\"x\""},
      {{"history", "-n", "0"}, "\"0\""},
      {{"history", "-n", "1001"}, "1001"},
      {{"history", "--since", ""}, "\"\""},
      {{"ps", "-n", "all"}, "all"},
      {{"ps", "--since", "now"}, "--since"},
      {{"export", "--last", "1h", "--", "ls"}, "--"},
  };
  for (const auto& [words, named] : table) {
    const auto result = parse_options(words);
    ASSERT_FALSE(result) << ::testing::PrintToString(words);
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(result.error().message, HasSubstr(named)) << ::testing::PrintToString(words);
    EXPECT_NE(result.error().hint, "") << ::testing::PrintToString(words);
  }
}

TEST(OptionValues, DurationsHaveAUnitOrAreSeconds) {
  const std::pair<const char*, std::uint64_t> table[] = {
      {"1", 1000},     {"10", 10'000},          {"10s", 10'000},    {"500ms", 500},
      {"5m", 300'000}, {"1h", 3'600'000},       {"0.5", 500},       {"1.5h", 5'400'000},
      {"1ms", 1},      {"366h", 1'317'600'000}, {"1d", 86'400'000},
  };
  for (const auto& [text, ms] : table) {
    const auto duration = parse_duration_ms(text);
    ASSERT_TRUE(duration) << text;
    EXPECT_EQ(*duration, ms) << text;
  }
  for (const char* text :
       {"", "s", "ms", "0", "0s", "0.1ms", "-1", "-1s", "1y", "1 s", "1sec", "1s ", "1.2.3", ".",
        "1e3", "inf", "nan", "9000h0", "99999999999999999999h"}) {
    EXPECT_FALSE(parse_duration_ms(text)) << text;
  }
}

TEST(OptionValues, AFrequencyErrorNamesTheHostsLimit) {
  const auto frequency = parse_frequency("0");
  ASSERT_FALSE(frequency);
  EXPECT_THAT(frequency.error().hint, HasSubstr("1 to "));
}

TEST(OptionValues, CgroupsMayBeGivenAsTheyAreMounted) {
  EXPECT_EQ(parse_cgroup("/sys/fs/cgroup"), "/");
  EXPECT_EQ(parse_cgroup("/sys/fs/cgroup/a/b"), "/a/b");
  EXPECT_EQ(parse_cgroup("/a"), "/a");
}

}  // namespace
}  // namespace profd
