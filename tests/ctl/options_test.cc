// The command line of profctl: what its options make of a request, and its errors.

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "ctl/options/values.h"
#include "formats/api/error_json.h"
#include "tests/ctl/profctl_fixture.h"

namespace profd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Arguments = std::vector<std::string>;

// Runs profctl with the arguments alone, without a socket of a test.
Ran run_plain(const Arguments& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = run_profctl(arguments, Console{out, err});
  return {code, out.str(), err.str()};
}

class OptionsTest : public test::ProfctlTest {
 protected:
  OptionsTest() {
    service_.on_session = [](SessionInfo& info) { info.state = "ended"; };
  }

  // What the daemon is asked to start.
  StartRequest request_of(const Arguments& arguments) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 0) << ::testing::PrintToString(arguments) << ran.err;
    EXPECT_THAT(service_.started, SizeIs(1));
    return service_.started.empty() ? StartRequest() : service_.started.back();
  }
};

TEST_F(OptionsTest, APeriodReplacesTheFrequency) {
  const StartRequest request = request_of({"start", "-a", "-e", "page-faults", "--period", "100"});
  EXPECT_EQ(request.period, 100u);
  EXPECT_EQ(request.frequency_hz, 0u);
}

TEST_F(OptionsTest, TargetsAreCollectedFromEveryForm) {
  const StartRequest request =
      request_of({"start", "-p", "1,2", "--pid", "3", "--pid=4", "-n", "nginx", "--comm", "a b",
                  "-G", "/sys/fs/cgroup/system.slice", "--cgroup", "/x", "--uid", "1000", "--uid",
                  "root", "--no-children"});
  EXPECT_THAT(request.target.pids, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(request.target.comms, ElementsAre("nginx", "a b"));
  EXPECT_THAT(request.target.cgroups, ElementsAre("/system.slice", "/x"));
  EXPECT_THAT(request.target.uids, ElementsAre(1000, 0));
  EXPECT_FALSE(request.target.all);
  EXPECT_FALSE(request.children);
}

TEST_F(OptionsTest, TargetsAreListsWithCommas) {
  const StartRequest request = request_of({"start", "-n", "nginx,a b", "-n", "x\\,y", "-u",
                                           "a,b.scope", "-c", "4f0c,5f", "--uid", "1000,root"});
  EXPECT_THAT(request.target.comms, ElementsAre("nginx", "a b", "x,y"));
  EXPECT_THAT(request.target.units, ElementsAre("a.service", "b.scope"));
  EXPECT_THAT(request.target.containers, ElementsAre("4f0c", "5f"));
  EXPECT_THAT(request.target.uids, ElementsAre(1000, 0));
  for (const char* const list : {",", "a,", ",a", "a,,b"}) {
    for (const char* const option : {"-n", "-u", "-c"}) {
      const Ran ran = run({"start", option, list});
      EXPECT_EQ(ran.code, kExitUsage) << option << list;
      EXPECT_THAT(ran.err, HasSubstr("empty name in the list"));
    }
  }
}

TEST_F(OptionsTest, UnitsAndContainersAreTargetsOfSessionsToo) {
  const StartRequest request =
      request_of({"start", "-u", "nginx", "--unit", "a.scope", "-c", "4f0c"});
  EXPECT_THAT(request.target.units, ElementsAre("nginx.service", "a.scope"));
  EXPECT_THAT(request.target.containers, ElementsAre("4f0c"));
}

TEST_F(OptionsTest, OptionsThatAreNotGivenAreLeftToTheDaemon) {
  StartRequest expected;
  expected.target.all = true;
  EXPECT_EQ(request_of({"start", "-a"}), expected);
}

TEST_F(OptionsTest, SamplingOptionsReachTheRequest) {
  const StartRequest request =
      request_of({"record", "-a", "-e", "page-faults", "-F", "499", "-d", "1.5s", "-o", out_});
  EXPECT_EQ(request.event, "page-faults");
  EXPECT_EQ(request.frequency_hz, 499u);
  EXPECT_EQ(request.duration_ms, 1500u);
  EXPECT_TRUE(std::filesystem::exists(out_ / "session.json"));
}

// A process that does not exist can't be asked, which shows that --ask-runtime was accepted.
TEST_F(OptionsTest, RuntimesAreAskedIfTheirPidsAreGiven) {
  const std::string absent = std::to_string(std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(run({"start", "--pid", absent, "--ask-runtime"}).code, kExitNotFound);
  EXPECT_EQ(run({"record", "--pid", absent, "--ask-runtime"}).code, kExitNotFound);
  EXPECT_THAT(service_.started, SizeIs(0));
  EXPECT_EQ(run({"record", "--pid", absent, "-o", out_}).code, 0);

  service_.on_session = [&](SessionInfo& info) {
    info.state = "running";
    info.target.pids = {std::numeric_limits<std::int32_t>::max()};
  };
  const Ran stopped = run({"stop", "5f2c01ab", "--ask-runtime", "-o", out_ / "stopped"});
  EXPECT_EQ(stopped.code, 0);
  EXPECT_THAT(stopped.err, HasSubstr("no such process " + absent));

  const std::pair<Arguments, int> table[] = {
      {{"record", "-a", "--ask-runtime"}, kExitUsage},
      {{"record", "--ask-runtime", "--", "java", "Main"}, kExitRecordFailed}};
  for (const auto& [arguments, code] : table) {
    const Ran refused = run(arguments);
    EXPECT_EQ(refused.code, code);
    EXPECT_THAT(refused.err, HasSubstr("--pid"));
  }
}

TEST_F(OptionsTest, AnEmptyPathIsRefused) {
  const Ran refused = run({"record", "-a", "-o", ""});
  EXPECT_EQ(refused.code, kExitUsage);
  EXPECT_THAT(refused.err, HasSubstr("the argument of --output is empty"));
  EXPECT_THAT(run({"report", ""}).err, HasSubstr("a path is empty"));
  EXPECT_THAT(service_.started, SizeIs(0));
}

TEST_F(OptionsTest, EveryArgumentAfterTheDashesBelongsToTheCommand) {
  const std::filesystem::path file = directory_.path() / "arguments";
  const Ran ran = run({"record", "-F", "99", "-o", out_, "--", "sh", "-c",
                       "printf '%s|' \"$@\" > " + file.string(), "ls", "-a", "--", "--json", "x"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  std::ifstream written(file);
  std::string text;
  std::getline(written, text);
  EXPECT_EQ(text, "-a|--|--json|x|");
  EXPECT_THAT(ran.err, HasSubstr("work.2.prof")) << "and not JSON on standard output";
  ASSERT_THAT(service_.started, SizeIs(1));
  EXPECT_FALSE(service_.started[0].target.all);
}

TEST_F(OptionsTest, SocketAndJsonMayStandBeforeOrAfterTheSubcommand) {
  for (const Arguments& arguments : {Arguments{"--json", "--socket", server_.socket(), "list"},
                                     Arguments{"list", "--json", "--socket", server_.socket()}}) {
    const Ran ran = run_plain(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_THAT(ran.out, StartsWith("{"));
  }
}

TEST_F(OptionsTest, TheSocketComesFromTheEnvironmentUnlessGiven) {
  ASSERT_EQ(::setenv("PROFD_SOCKET", "/from/environment", 1), 0);
  EXPECT_THAT(run_plain({"status"}).err, HasSubstr("nothing listens on /from/environment\n"));
  EXPECT_THAT(run_plain({"status", "--socket", "/given"}).err, HasSubstr("listens on /given\n"));
  ASSERT_EQ(::unsetenv("PROFD_SOCKET"), 0);
  EXPECT_THAT(run_plain({"status", "--help"}).out, HasSubstr("--socket"));
  EXPECT_THAT(run_plain({"--help"}).out, HasSubstr("/run/profd/profd.sock"));
}

TEST_F(OptionsTest, HelpStartsWithExamples) {
  for (const char* flag : {"--help", "-h"}) {
    const Ran ran = run_plain({flag});
    EXPECT_EQ(ran.code, 0);
    EXPECT_THAT(ran.out, StartsWith("Examples:\n  profctl start --pid"));
  }
  EXPECT_THAT(run_plain({"record", "--help"}).out,
              AllOf(HasSubstr("profctl record"), HasSubstr("-- COMMAND [ARG ...]")));
}

TEST_F(OptionsTest, HelpNamesTheTimeThatIsShownByDefault) {
  for (const char* const subcommand : {"report", "flame"}) {
    EXPECT_THAT(run_plain({subcommand, "--help"}).out,
                HasSubstr("[the last 10 minutes of the history]"));
  }
  for (const char* const subcommand : {"web", "view"}) {
    EXPECT_THAT(run_plain({subcommand, "--help"}).out, HasSubstr("[the whole history]"));
  }
}

TEST_F(OptionsTest, HelpNamesTheDirectoryThatIsWrittenToByDefault) {
  const std::pair<const char*, const char*> table[] = {{"stop", "[./profd-SESSION]"},
                                                       {"record", "[./profd-SESSION]"},
                                                       {"dump", "[./profd-RESULT,"},
                                                       {"export", "[./profd-RESULT,"}};
  for (const auto& [subcommand, directory] : table) {
    EXPECT_THAT(run_plain({subcommand, "--help"}).out, HasSubstr(directory)) << subcommand;
  }
}

// The error of a command line that is not accepted.
Error refused(Arguments arguments) {
  arguments.insert(arguments.begin(), "--json");
  const Ran ran = run_plain(arguments);
  EXPECT_EQ(ran.code, kExitUsage) << ::testing::PrintToString(arguments);
  EXPECT_EQ(ran.out, "");
  return parse_error(ran.err);
}

TEST_F(OptionsTest, AWrongCommandLineIsNoStatusOfTheCommand) {
  const std::pair<Arguments, const char*> table[] = {
      {{"record", "-p", "x", "--", "ls"}, "invalid pid"},
      {{"record", "-F", "often", "--", "ls"}, "often"},
      {{"--json", "record", "--formt", "folded", "--", "ls"}, "did you mean --format?"}};
  for (const auto& [arguments, text] : table) {
    const Ran ran = run_plain(arguments);
    EXPECT_EQ(ran.code, kExitRecordFailed) << ::testing::PrintToString(arguments);
    EXPECT_THAT(ran.err, HasSubstr(text));
  }
  EXPECT_EQ(run_plain({"status", "--", "record"}).code, kExitUsage);
}

TEST_F(OptionsTest, AnUnknownSubcommandHasTheNearest) {
  const std::tuple<Arguments, const char*, const char*> table[] = {
      {{"dance"}, "unknown subcommand 'dance'", "--help"},
      {{"statsu"}, "unknown subcommand 'statsu'", "did you mean status?"},
      {{"exprot", "--last", "1h"}, "unknown subcommand 'exprot'", "export"},
      {{"--json", "lst"}, "unknown subcommand 'lst'", "list"},
  };
  for (const auto& [arguments, message, hint] : table) {
    const Error error = refused(arguments);
    EXPECT_EQ(error.message, message);
    EXPECT_THAT(error.hint, HasSubstr(hint));
  }
}

// A path may have any bytes, so the last of these command lines lacks nothing but a target.
TEST_F(OptionsTest, ArgumentsForTheDaemonAreValidUtf8) {
  for (const Arguments& arguments :
       {Arguments{"start", "--comm", "n\xe9t"}, Arguments{"start", "--comm=n\xe9t"},
        Arguments{"start", "-a", "-e", "\xff"}, Arguments{"start", "-G", "/\xc3"},
        Arguments{"ps", "-u", "a\x80"}, Arguments{"export", "-c", "\xc0\xaf"}}) {
    EXPECT_THAT(refused(arguments).message, StartsWith("argument is not valid UTF-8: '"));
  }
  EXPECT_THAT(refused({"start", "--comm", "n\xe9t"}).message, HasSubstr("'n\xef\xbf\xbdt'"));
  EXPECT_THAT(refused({"record", "-o", "n\xe9t"}).message, HasSubstr("no target is given"));
}

TEST_F(OptionsTest, LongArgumentsAreRefusedAndNotRepeatedWhole) {
  const std::string endless(100'000, 'x');
  const std::string as_long_as_a_path(4096, 'x');
  for (const std::string& text : {endless, as_long_as_a_path}) {
    for (const Arguments& arguments :
         {Arguments{"start", "--comm", text}, Arguments{"start", "--pid", text},
          Arguments{"start", "-a", "--freq", text}, Arguments{"start", "--uid", text},
          Arguments{"start", "-u", text}, Arguments{text}, Arguments{"start", text},
          Arguments{"start", "--" + text}}) {
      const Error error = refused(arguments);
      EXPECT_LT(error.message.size(), 300U) << arguments[0];
      EXPECT_LT(error.hint.size(), 300U) << arguments[0];
    }
  }
}

TEST_F(OptionsTest, TargetsThatMakeNoSenseAreRefusedBeforeTheDaemonIsAsked) {
  EXPECT_THAT(refused({"start", "-a", "--pid", "5"}).message, HasSubstr("excludes every other"));
  EXPECT_THAT(refused({"start", "--uid", "4294967295"}).message, HasSubstr("invalid uid"));
  EXPECT_THAT(refused({"start", "--comm", "sixteen-bytes-xy"}).hint, HasSubstr("sixteen-bytes-x"));
}

TEST_F(OptionsTest, AnUnknownOptionHasTheSubcommandsThatHaveIt) {
  const std::tuple<Arguments, const char*, const char*> table[] = {
      {{"list", "--since", "02:58:50"},
       "list: unknown option --since; history, ps, report, flame, web, view, export and debuginfo "
       "have it",
       "profctl list --help"},
      {{"ps", "--format=prof"},
       "ps: unknown option --format; stop, dump, record, export and convert have it",
       "profctl ps"},
      {{"list", "-a"},
       "list: unknown option -a; start, record, top, export and debuginfo have it",
       "profctl list"},
      {{"ps", "--lmit", "3"}, "ps: unknown option --lmit", "--limit"},
      {{"--jsn"}, "unknown option --jsn", "--json"},
      {{"stop", "a", "b"}, "stop: unexpected argument 'b'", "profctl stop --help"},
      {{"start", "--pid"}, "start: --pid takes one argument", "profctl start --help"},
      {{"start", "-F", "1", "-F", "2"}, "start: --freq takes one argument", "profctl start --help"},
  };
  for (const auto& [arguments, message, hint] : table) {
    const Error error = refused(arguments);
    EXPECT_EQ(error.message, message);
    EXPECT_THAT(error.hint, HasSubstr(hint));
  }
}

TEST_F(OptionsTest, HelpIsASubcommandToo) {
  EXPECT_EQ(run_plain({"help"}).out, run_plain({"--help"}).out);
  EXPECT_EQ(run_plain({"help", "record"}).out, run_plain({"record", "--help"}).out);
  EXPECT_EQ(refused({"help", "recrod"}).hint, "did you mean record?");
}

TEST_F(OptionsTest, AnArgumentWithoutAnOptionHasTheOptionThatItMayBeFor) {
  const std::pair<Arguments, const char*> table[] = {
      {{"start", "nginx"}, "did you mean --comm nginx?"},
      {{"start", "1234"}, "did you mean --pid 1234?"},
      {{"start", "-a", "1,2"}, "did you mean --pid 1,2?"},
      {{"record", "1234"}, "did you mean --pid 1234?"},
      {{"record", "ls"}, "did you mean --comm ls, or a command: -- ls?"},
      {{"doctor", "1234"}, "did you mean --pid 1234?"},
      {{"doctor", "nginx"}, "'profctl doctor --help' shows what it takes"},
      {{"list", "nginx"}, "'profctl list --help' shows what it takes"},
  };
  for (const auto& [arguments, hint] : table) EXPECT_EQ(refused(arguments).hint, hint);
}

TEST_F(OptionsTest, AFileTooManyIsNoNameOfAProcess) {
  const std::string file = directory_.path() / "b.pb.gz";
  std::ofstream(file) << "x";
  for (const char* const subcommand : {"report", "flame", "web"}) {
    EXPECT_THAT(refused({subcommand, "a.pb.gz", file}).hint,
                StartsWith("one source is taken; 'profctl convert' merges several"));
  }
  EXPECT_THAT(refused({"diff", "a.pb.gz", "a.pb.gz", file}).hint, StartsWith("two sources are"));
  EXPECT_THAT(refused({"report", "a.pb.gz", file + "2"}).hint, StartsWith("did you mean --comm"));
  EXPECT_THAT(refused({"start", file}).hint, StartsWith("did you mean --comm"));
}

TEST_F(OptionsTest, ATimeWithoutAnOptionHasTheOptionThatItIsFor) {
  const std::pair<Arguments, const char*> table[] = {
      {{"history", "14:00..14:10"}, "did you mean --since 14:00 --until 14:10?"},
      {{"history", "14:00.."}, "did you mean --since 14:00?"},
      {{"history", "20m", "ago..10m", "ago"},
       "did you mean --since \"20m ago\" --until \"10m ago\"?"},
      {{"history", "20:19"}, "did you mean --since 20:19?"},
      {{"history", "5m"}, "did you mean --last 5m?"},
      {{"ps", "5m", "ago"}, "did you mean --since \"5m ago\"?"},
      {{"report", "5m", "ago"}, "did you mean --since \"5m ago\"?"},
      {{"report", "out", "5m", "ago"}, "did you mean --since \"5m ago\"?"},
      {{"record", "10s"}, "did you mean --duration 10s?"},
      {{"ps", "1234"}, "did you mean --pid 1234?"},
      {{"history", "14:00..nginx"}, "did you mean --comm 14:00..nginx?"},
      {{"list", "5m"}, "'profctl list --help' shows what it takes"},
  };
  for (const auto& [arguments, hint] : table) {
    EXPECT_EQ(refused(arguments).hint, hint) << ::testing::PrintToString(arguments);
  }
}

TEST_F(OptionsTest, ARangeWithoutTimeSaysWhatIsWrong) {
  const auto message = [](const char* since, const char* until) {
    return refused({"history", "--since", since, "--until", until}).message;
  };
  EXPECT_EQ(message("@1767362700", "@1767362700"), "the time range is empty");
  EXPECT_EQ(message("@1767362760", "@1767362700"), "the time range ends before it starts");
}

TEST_F(OptionsTest, AnEmptyArgumentHasTheNameOfItsOption) {
  const std::pair<const char*, const char*> table[] = {
      {"-p", "--pid"},    {"-n", "--comm"},   {"-u", "--unit"},     {"-c", "--container"},
      {"--uid", "--uid"}, {"-G", "--cgroup"}, {"-d", "--duration"}, {"-o", "--output"}};
  for (const auto& [option, name] : table) {
    const Error error = refused({"record", "-a", option, ""});
    EXPECT_EQ(error.message, "the argument of " + std::string(name) + " is empty");
    EXPECT_EQ(error.hint, "is a variable of the shell not set?");
  }
}

TEST_F(OptionsTest, ANameAsLimitHasTheOptionForNames) {
  for (const char* subcommand : {"ps", "history"}) {
    const Error error = refused({subcommand, "-n", "nginx"});
    EXPECT_THAT(error.message, HasSubstr("--limit 'nginx'"));
    EXPECT_EQ(error.hint, "-n is --limit here, for example -n 10; to match by name use --comm");
  }
  EXPECT_THAT(refused({"top", "-n", "nginx"}).hint, HasSubstr("to match by name use --comm"));
}

TEST_F(OptionsTest, AnErrorIsOneCauseAndOneHint) {
  const std::pair<Arguments, const char*> table[] = {
      {{}, "subcommand"},
      {{"dance"}, "dance"},
      {{"start"}, "target"},
      {{"start", "extra", "-a"}, "extra"},
      {{"start", "-a", "--unknown"}, "--unknown"},
      {{"start", "--pid"}, "--pid"},
      {{"start", "--pid", "0"}, "invalid pid '0'"},
      {{"start", "--pid", "-1"}, "-1"},
      {{"start", "--pid", "nginx"}, "invalid pid 'nginx'; to match by name use --comm nginx"},
      {{"start", "--pid", "1,x"}, "'x'"},
      {{"start", "--pid", "1,"}, "''"},
      {{"start", "--pid", ""}, "of --pid is empty"},
      {{"start", "--pid", "0x10"}, "0x10"},
      {{"start", "--pid", "99999999999"}, "99999999999"},
      {{"start", "--pid", "1", "2"}, "2"},
      {{"start", "--uid", "no such user"}, "no such user"},
      {{"start", "-a", "-F", "0"}, "invalid --freq 0 (1 to "},
      {{"start", "-a", "-F", ""}, "of --freq is empty"},
      {{"start", "-a", "-F", "1e9"}, "'1e9'"},
      {{"start", "-a", "-F", "-5"}, "-5"},
      {{"start", "-a", "--period", "0"}, "--period 0"},
      {{"start", "-a", "--period", "often"}, "'often'"},
      {{"start", "-a", "--period", "5", "-F", "9"}, "--freq and --period exclude each other"},
      {{"start", "-a", "-d", "yesterday"}, "yesterday"},
      {{"start", "-a", "-d", ""}, "of --duration is empty"},
      {{"start", "-a", "--", "ls"}, "--"},
      {{"stop"}, "SESSION"},
      {{"stop", "a", "b"}, "b"},
      {{"status", "--"}, "--"},
      {{"record"}, "target"},
      {{"record", "--"}, "--"},
      {{"export"}, "time"},
      {{"export", "-o", "x"}, "time"},
      {{"export", "--last", "soon"}, "soon"},
      {{"export", "--last", "0"}, "0"},
      {{"export", "--last", ""}, "of --last is empty"},
      {{"export", "--since", "14:61"}, "14:61"},
      {{"export", "--last", "1h", "--since", "now"}, "--last"},
      {{"export", "--since", "now", "--until", "yesterday"}, "range"},
      {{"export", "--last", "1h", "-p", "x"}, "'x'"},
      {{"history", "-n", "0"}, "--limit 0"},
      {{"history", "-n", "1001"}, "1001"},
      {{"history", "--since", ""}, "of --since is empty"},
      {{"ps", "-n", "all"}, "all"},
      {{"ps", "--since", "now", "--until", "yesterday"}, "range"},
      {{"ps", "--all", "-n", "3"}, "--all"},
      {{"history", "--all", "-n", "3"}, "--all"},
      {{"export", "--last", "1h", "--", "ls"}, "--"},
      {{"stop", "5f2c01ab", "-q", "--all"}, "--quiet and --all exclude each other"},
      {{"dump", "5f2c01ab", "-q", "--all"}, "--quiet and --all exclude each other"},
      {{"record", "-a", "-q", "--all-files"}, "--quiet and --all-files exclude"},
      {{"export", "--last", "1h", "--quiet", "--all-files"}, "--quiet and --all-files exclude"},
      {{"convert", "log", "-o", "x", "--format", "pdf"}, "invalid --format 'pdf'"},
      {{"convert", "log"}, "output"},
  };
  for (const auto& [arguments, named] : table) {
    const Error error = refused(arguments);
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.message, HasSubstr(named)) << ::testing::PrintToString(arguments);
    EXPECT_NE(error.hint, "") << ::testing::PrintToString(arguments);
  }
}

TEST(OptionValues, DurationsHaveAUnitOrAreSeconds) {
  const std::pair<const char*, std::uint64_t> table[] = {
      {"1", 1000},       {"10", 10'000},          {"10s", 10'000},    {"500ms", 500},
      {"5m", 300'000},   {"1h", 3'600'000},       {"0.5", 500},       {"1.5h", 5'400'000},
      {"1ms", 1},        {"366h", 1'317'600'000}, {"1d", 86'400'000}, {"1sec", 1000},
      {"1m30s", 90'000}, {"1h 30m", 5'400'000},
  };
  for (const auto& [text, ms] : table) {
    const auto duration = parse_duration_ms(text);
    ASSERT_TRUE(duration) << text;
    EXPECT_EQ(*duration, ms) << text;
  }
  for (const char* text : {"", "s", "ms", "0", "0s", "0.1ms", "-1", "-1s", "1y", "1s ", "1m-3s",
                           "1.2.3", ".", "1e3", "inf", "nan", "9000h0", "99999999999999999999h"}) {
    EXPECT_FALSE(parse_duration_ms(text)) << text;
  }
}

TEST(OptionValues, CgroupsMayBeGivenAsTheyAreMounted) {
  EXPECT_EQ(*parse_cgroup("/sys/fs/cgroup"), "/");
  EXPECT_EQ(*parse_cgroup("/sys/fs/cgroup/a/b"), "/a/b");
  EXPECT_EQ(*parse_cgroup("/a"), "/a");
}

}  // namespace
}  // namespace profd
