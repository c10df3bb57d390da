// The subcommands of profctl against the real control server, with a service that profiles nothing.

#include "ctl/commands/commands.h"

#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectors/sampling/event_spec.h"
#include "formats/api/error_json.h"
#include "formats/profile/gperftools_reader.h"
#include "tests/ctl/profctl_fixture.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class CommandsTest : public test::ProfctlTest {};

TEST_F(CommandsTest, AHighFrequencyIsStartedWithAWarning) {
  const Ran usual = run({"start", "-a", "-F", "10000"});
  EXPECT_EQ(usual.err, "");
  const Ran high = run({"start", "-a", "-F", "20000"});
  EXPECT_EQ(high.code, 0);
  EXPECT_THAT(high.err, HasSubstr("20000 samples a second take about 20.0 % of each busy CPU"));
  EXPECT_EQ(high.out, usual.out);
}

// Of all threads of a host, nearly all wait for work.
TEST_F(CommandsTest, OffCpuOfTheWholeHostIsStartedWithAWarning) {
  for (const char* const event : {"off-cpu", "wall"}) {
    const Ran whole = run({"start", "-a", "-e", event});
    EXPECT_EQ(whole.code, 0);
    EXPECT_THAT(whole.err, ::testing::ContainsRegex("this host has [0-9]+ threads"));
    EXPECT_THAT(whole.err, HasSubstr("hint: name what was slow"));
    EXPECT_EQ(run({"start", "-p", "1", "-e", event}).err, "");
  }
  EXPECT_EQ(run({"start", "-a", "-e", "runnable"}).err, "");
}

// What make_event_spec() accepts, the list has, and the other way round.
TEST_F(CommandsTest, EventsListsEachEventWithALine) {
  const Ran ran = run({"events"});
  EXPECT_EQ(ran.code, 0);
  std::istringstream lines(ran.out);
  std::string line;
  std::getline(lines, line);
  EXPECT_THAT(line, StartsWith("EVENT"));
  std::vector<std::string> names;
  while (std::getline(lines, line)) {
    names.push_back(line.substr(0, line.find(' ')));
    EXPECT_GT(line.size(), 50U) << line;
  }
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.back(), "xray");
  names.pop_back();
  std::vector<std::string> known;
  for (const std::string_view name : event_names()) known.emplace_back(name);
  EXPECT_EQ(names, known);
  EXPECT_THAT(ran.out, HasSubstr("cpu-clock"));
  EXPECT_THAT(run({"events", "--json"}).out,
              StartsWith(R"({"events":[{"event":"cpu","on_host":"yes","help":")"));
}

TEST_F(CommandsTest, StartPrintsTheIdAlone) {
  const Ran ran = run({"start", "--pid", "1234", "-F", "499", "-d", "10s", "--no-children"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "5f2c01ab\n");
  EXPECT_EQ(ran.err, "");
  StartRequest expected;
  expected.target.pids = {1234};
  expected.children = false;
  expected.frequency_hz = 499;
  expected.duration_ms = 10'000;
  EXPECT_THAT(service_.started, ElementsAre(expected));
  EXPECT_EQ(run({"start", "-a", "--json"}).out, "{\"session\":\"5f2c01ab\"}\n");
}

TEST_F(CommandsTest, StopWritesEveryFileAndThenDeletesTheCopyOfTheDaemon) {
  const Ran ran = run({"stop", "5f2c01ab", "-o", out_});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, (out_ / "work.2.prof").string() + "  490 samples\n" +
                         (out_ / "work.1.prof").string() + "  5 samples\n" +
                         (out_ / "objects/kernel.so").string() + "\n" +
                         (out_ / "session.json").string() + "\n");
  EXPECT_EQ(ran.err, kLossOfResult);
  EXPECT_EQ(test::read_file(out_ / "session.json"), to_json(service_.result.summary) + "\n");
  EXPECT_EQ(test::read_file(out_ / "objects" / "kernel.so"), service_.files["objects/kernel.so"]);
  EXPECT_EQ(service_.calls.back(), "remove 5f2c01ab");
  const auto profile = decode_gperftools(test::read_file(out_ / "work.2.prof"));
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->samples(), 490u);
  EXPECT_EQ(profile->build_dir, fs::canonical(out_)) << "objects are found from anywhere";
}

TEST_F(CommandsTest, StopPrintsSessionJsonWhenAsked) {
  const Ran ran = run({"stop", "5f2c01ab", "--json", "-o", out_});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, to_json(service_.result.summary) + "\n");
  EXPECT_EQ(test::read_file(out_ / "session.json"), ran.out);
}

TEST_F(CommandsTest, ASessionWithoutSamplesSaysWhy) {
  service_.result.summary.ledger = {};
  const std::pair<const char*, const char*> table[] = {
      {"cpu", "profctl: no samples: no process of the target used the CPU\n"},
      {"page-faults",
       "profctl: no page-faults were sampled: none occurred in the target, or too few; --period 1 "
       "takes each of them\n"}};
  for (const auto& [event, text] : table) {
    service_.result.summary.event = event;
    EXPECT_EQ(run({"stop", "5f2c01ab", "-o", out_ / event}).err, text);
  }
}

TEST_F(CommandsTest, StopPrintsTheIssuesOfRecordedCalls) {
  service_.result.summary.xray = {
      {"records", 495}, {"gap", 1}, {"app_gone", 1}, {"still_patched", 1}, {"of_a_later_day", 2}};
  EXPECT_EQ(run({"stop", "5f2c01ab", "-o", out_}).err,
            kLossOfResult +
                "profctl: 1 gap in a thread's records\n"
                "profctl: the app has ended, or has closed its connection\n"
                "profctl: the app did not confirm in time that its functions are unpatched\n"
                "profctl: 2 of_a_later_day (docs/xray.md)\n");
}

TEST_F(CommandsTest, DumpDoesTheSameAndRemovesItsOwnResultOnly) {
  service_.result.result = "5f2c01ab-dump-1";
  const Ran ran = run({"dump", "5f2c01ab", "-o", out_});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(service_.calls, Contains("dump 5f2c01ab"));
  EXPECT_THAT(service_.calls, Not(Contains("stop 5f2c01ab")));
  EXPECT_EQ(service_.calls.back(), "remove 5f2c01ab-dump-1");
}

TEST_F(CommandsTest, ADirectoryWithBlanksNeedsPprofToRunInIt) {
  const fs::path blank = directory_.path() / "a b";
  const Ran ran = run({"stop", "5f2c01ab", "-o", blank});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("inside that directory"));
  EXPECT_EQ(decode_gperftools(test::read_file(blank / "work.1.prof"))->build_dir, ".");
}

TEST_F(CommandsTest, ADirectoryWithASessionIsRefusedBeforeAnythingIsAsked) {
  fs::create_directory(out_);
  std::ofstream(out_ / "session.json") << "precious";
  for (const char* subcommand : {"stop", "dump", "record"}) {
    std::vector<std::string> arguments{subcommand, "5f2c01ab", "-o", out_};
    if (std::string(subcommand) == "record") arguments = {subcommand, "-a", "-o", out_};
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 1) << subcommand;
    EXPECT_THAT(ran.err, StartsWith("profctl: " + (out_ / "session.json").string()));
    EXPECT_THAT(ran.err, HasSubstr("\nhint: "));
  }
  EXPECT_THAT(service_.calls, IsEmpty());
  EXPECT_EQ(test::read_file(out_ / "session.json"), "precious");
}

TEST_F(CommandsTest, AProfileThatIsThereIsNotOverwrittenAndTheSamplesAreKept) {
  fs::create_directory(out_);
  std::ofstream(out_ / "work.2.prof") << "precious";
  const Ran ran = run({"stop", "5f2c01ab", "-o", out_});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("work.2.prof exists"));
  EXPECT_EQ(test::read_file(out_ / "work.2.prof"), "precious");
  EXPECT_FALSE(fs::exists(out_ / "work.1.prof"));
  EXPECT_THAT(service_.calls, Not(Contains("remove 5f2c01ab")));
}

TEST_F(CommandsTest, AFileThatFailsInTheMiddleLeavesNothingAndTheSamplesAreKept) {
  service_.files.erase("work.2.prof");  // the last one that is fetched
  const Ran ran = run({"stop", "5f2c01ab", "-o", out_});
  EXPECT_EQ(ran.code, 4) << "the daemon's own error";
  EXPECT_FALSE(fs::exists(out_));
  EXPECT_THAT(service_.calls, Not(Contains("remove 5f2c01ab")));
}

TEST_F(CommandsTest, SessionsAreListedAsATable) {
  service_.info.target.comms = {"evil\x1b[2J"};
  const Ran ran = run({"list"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, StartsWith("ID        TARGET"));
  EXPECT_THAT(ran.out, HasSubstr("5f2c01ab  pid 1234, comm evil?[2J  running  cpu, 99 Hz  495"));
  EXPECT_EQ(run({"list", "--json"}).out, to_json(std::vector{service_.info}) + "\n");
}

TEST_F(CommandsTest, StatusHasNoShareOfStacksBeforeTheFirst) {
  const std::string out = run({"status"}).out;
  EXPECT_THAT(out, HasSubstr("stacks     no stacks yet\n"));
  EXPECT_THAT(out, Not(HasSubstr("complete")));
}

TEST_F(CommandsTest, StatusIsForPeopleOrForScripts) {
  service_.state.pid = 77;
  service_.state.skipped_estimate = 1391;
  service_.state.process_records_lost = 1392;
  service_.state.uptime_seconds = 3661;
  service_.state.cpu_seconds = 36.61;
  service_.state.rss_bytes = 30u << 20;
  service_.state.parsers = {.processes = 2, .cpu_seconds = 36.61, .rss_bytes = 10U << 20};
  service_.state.ledger = {
      .taken = 10, .sent = 5, .idle = 2, .filtered = 1, .lost = {{"ring_full", 1}}};
  service_.state.unwinding = {.user_samples = 10'000,
                              .complete_samples = 9'997,
                              .incomplete = {{"no_row", 2}, {"window", 1}},
                              .worst = {{.path = "/opt/\x1bx", .reason = "no_row", .samples = 2}},
                              .tables = {.count = 5,
                                         .files = 6,
                                         .rows = 700,
                                         .bytes = 2048,
                                         .arena_bytes = 4096,
                                         .cap_bytes = 40U << 20,
                                         .rules = 9,
                                         .evicted = 10,
                                         .loading = 11,
                                         .refused = {{"malformed", 12}, {"vanished", 348'275}}},
                              .deferred = {.waiting = 13, .done = 14, .abandoned = 15},
                              .parser_restarts = 0};
  const Ran people = run({"status"});
  EXPECT_EQ(people.code, 0);
  for (const char* part :
       {"0.1.0, pid 77, up 1 h 1 min", "73.22 CPU seconds (2.00 %), 40.0 MiB resident",
        "of that 2 parsers 36.61 CPU seconds (1.00 %), 10.0 MiB\n",
        "history    off; 0 windows and 0 hour files kept, 0 B on disk\n",
        "10 taken = 5 sent + 2 idle + 1 filtered + 1 lost, difference 1", "1 ring_full",
        "99.97 % of 10000 complete, the rest 2 no_row, 1 window",
        "deferred: 14 unwound, 13 waiting, 15 abandoned",
        "5 for 6 files, 700 rows, 2.0 KiB of at most 40.0 MiB; 11 loading, 10 evicted",
        "no table   348275 short-lived files (harmless), 12 malformed\n",
        "incomplete 2 no_row in /opt/?x\n", "; 1391 timer ticks missed (mostly idle)\n",
        "processes  1392 records sent later, for lack of room in the rings\n"}) {
    EXPECT_THAT(people.out, HasSubstr(part));
  }
  const std::string json = run({"status", "--json"}).out;
  const auto parsed = parse_status_info(json);
  ASSERT_TRUE(parsed) << json;
  EXPECT_GE(parsed->connections.open, 1U) << "the connection of this request is open";
  StatusInfo expected = service_.state;
  expected.connections.open = parsed->connections.open;
  EXPECT_EQ(json, to_json(expected) + "\n");
}

TEST_F(CommandsTest, StatusShowsWhatHasNamesAndWhyTheRestHasNone) {
  EXPECT_THAT(run({"status"}).out, Not(HasSubstr("\nnames ")));
  service_.state.names = {.samples = 8000,
                          .fully_named = 6000,
                          .sources = {{"dynsym", 7600}, {"gap", 400}},
                          .cached_files = 12,
                          .cached_bytes = 2048,
                          .debug_files = {.found = {}, .refused = {{"other_build_id", 6}}},
                          .lines = {.answered = 134,
                                    .addresses_lost = {{"no_unit", 3}},
                                    .files_refused = {{"no_dwarf", 4}},
                                    .cpu_seconds = 0.785,
                                    .failures = 0}};
  const std::string out = run({"status"}).out;
  for (const char* part :
       {"names      95.00 % of 8000 samples have one for the innermost frame, 75.00 % for every "
        "frame; innermost: 7600 dynsym, 400 gap\n",
        "           12 files, 2.0 KiB cached; lines of 134 addresses read in 0.79 CPU seconds\n",
        "no lines   addresses: 3 no_unit\n", "refused    debug files: 6 other_build_id\n",
        "no lines   files: 4 no_dwarf\n"}) {
    EXPECT_THAT(out, HasSubstr(part));
  }
}

TEST_F(CommandsTest, StatusShowsContinuousModeAndWindowsThatFailed) {
  StatusInfo::Continuous& continuous = service_.state.continuous;
  continuous.enabled = true;
  continuous.frequency_hz = 19;
  continuous.window_seconds = 300;
  continuous.windows = 42;
  continuous.hours = 1;
  continuous.disk_bytes = 3U << 20;
  continuous.oldest = "2026-01-02T14:05:00Z";
  continuous.last_written = "no time";
  const std::string well = run({"status"}).out;
  EXPECT_THAT(well,
              HasSubstr("history    on: 19 Hz, windows of 5 min; 42 windows and 1 hour file kept, "
                        "3.0 MiB on disk\n           oldest 2026-01-0"));
  EXPECT_THAT(well, HasSubstr(", last written no time\n"));
  EXPECT_THAT(well, Not(HasSubstr("failed")));
  continuous.failed = {{"no_space", 5}, {"writer_busy", 1}};
  continuous.lost_samples = 1234;
  continuous.malformed = 3;
  continuous.over_share_samples = 17;
  const std::string ill = run({"status"}).out;
  EXPECT_THAT(ill, HasSubstr("over share 17 samples of users"));
  EXPECT_THAT(ill, HasSubstr("failed     windows: 5 no_space, 1 writer_busy; 1234 samples lost"));
  EXPECT_THAT(ill, HasSubstr("malformed  3 windows, moved aside\n"));
}

TEST_F(CommandsTest, StatusShowsWhatUsersWereRefused) {
  EXPECT_THAT(run({"status"}).out, Not(HasSubstr("USER")));
  service_.state.users = {
      {.uid = 4'000'000'000,
       .refused = {{"POST /v1/sessions: too_large", 12}, {"connections.refused", 3}}},
      {.uid = std::nullopt, .refused = {{"evil\x1b[2J", 7}}}};
  EXPECT_THAT(run({"status"}).out, HasSubstr("\nrefused or dropped:\n"
                                             "USER        WHAT                          TIMES\n"
                                             "4000000000  POST /v1/sessions: too_large  12\n"
                                             "4000000000  connections.refused           3\n"
                                             "others      evil?[2J                      7\n"));
  service_.state.users = {{.uid = 0, .refused = {{"x", 1}}}};
  EXPECT_THAT(run({"status"}).out, HasSubstr("\nroot  x "));
}

TEST_F(CommandsTest, TheDaemonsErrorsBecomeExitCodes) {
  const std::pair<ErrorCode, int> table[] = {
      {ErrorCode::kInvalidArgument, 2},
      {ErrorCode::kMalformed, 1},
      {ErrorCode::kPermissionDenied, 5},
      {ErrorCode::kNotFound, 4},
      {ErrorCode::kTimeout, 1},
      {ErrorCode::kBusy, 1},
      {ErrorCode::kTooLarge, 1},
      {ErrorCode::kUnsupported, 6},
      {ErrorCode::kIo, 1},
      {ErrorCode::kInternal, 1},
      {ErrorCode::kUnavailable, 3},
  };
  for (const auto& [code, exit_code] : table) {
    service_.error = fail(code, "what", "do this");
    const Ran ran = run({"stop", "5f2c01ab", "-o", out_});
    EXPECT_EQ(ran.code, exit_code);
    EXPECT_EQ(ran.err, "profctl: what\nhint: do this\n");
    EXPECT_EQ(ran.out, "");
    EXPECT_FALSE(fs::exists(out_));
  }
}

// Exit code 4 is for processes, sessions and sources.
TEST_F(CommandsTest, AFileOfTheCallersThatIsAbsentIsAFailure) {
  const std::vector<std::vector<std::string>> table = {
      {"export", "--last", "10m", "-o", "/proc/n.pb.gz"},
      {"convert", "n.pb.gz", "-o", directory_.path() / "none" / "x.folded"},
      {"ship", "--config", directory_.path() / "none.toml"},
      {"web", "--port", "0", "--tls-cert", "/no/x", "--tls-key", "/no/y"},
  };
  for (const auto& arguments : table) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, kExitFailed) << arguments.front();
    EXPECT_THAT(ran.err, HasSubstr("No such file or directory")) << arguments.front();
  }
}

TEST_F(CommandsTest, ErrorsAreJsonWhenAsked) {
  service_.error = fail(ErrorCode::kBusy, "wh\"at", "do this");
  const std::string line = R"({"error":{"code":"busy","message":"wh\"at","hint":"do this"}})"
                           "\n";
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"stop", "5f2c01ab", "-o", out_, "--json"},
                                             {"--json", "start", "-a"},
                                             {"record", "-a", "--json"},
                                             {"record", "-o", out_, "--json", "--", "true"}}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.err, line) << arguments.front();
    EXPECT_EQ(ran.out, "") << arguments.front();
    EXPECT_NE(ran.code, 0) << arguments.front();
  }
  const Ran usage = run({"record", "--json", "--no-such-option"});
  EXPECT_EQ(usage.code, 2);
  EXPECT_EQ(parse_error(usage.err).code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(parse_error(usage.err).message, HasSubstr("--no-such-option"));
  const Ran of_the_command = run({"record", "-o", out_, "--", "true", "--json"});
  EXPECT_THAT(of_the_command.err, StartsWith("profctl: ")) << "the option is the command's";
}

TEST_F(CommandsTest, AnInvalidIdIsNotFoundAndNeverBecomesAPath) {
  for (const char* id : {"../../etc", "a/b", ".", "a b", ""}) {
    const Ran ran = run({"stop", id});
    EXPECT_EQ(ran.code, 4) << id;
  }
  EXPECT_THAT(service_.calls, IsEmpty());
}

TEST_F(CommandsTest, AStopThatTakesAWhileIsWaitedFor) {
  service_.before_result = []() -> boost::asio::awaitable<void> {
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor,
                                    std::chrono::milliseconds(500));
    co_await timer.async_wait(boost::asio::use_awaitable);
  };
  EXPECT_EQ(run({"stop", "5f2c01ab", "-o", out_}).code, 0);
}

TEST(NoDaemon, IsExitCodeThree) {
  const TemporaryDirectory directory;
  const std::vector<std::vector<std::string>> table = {
      {"status"},           {"list"},         {"start", "-a"}, {"stop", "5f2c01ab"},
      {"dump", "5f2c01ab"}, {"record", "-a"},
  };
  for (const auto& arguments : table) {
    const Ran ran = run_with_socket(directory.path() / "absent", arguments);
    EXPECT_EQ(ran.code, 3) << arguments.front();
    EXPECT_THAT(ran.err, HasSubstr("--socket"));
  }
}

}  // namespace
}  // namespace profd
