// `take` and `profctl top` on a real profd: each sample is in one part, tmux presses the keys.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>

#include "formats/api/control_api.h"
#include "formats/profile/pprof_reader.h"
#include "tests/ctl/views/pprof_traces.h"
#include "tests/e2e/recording.h"
#include "tests/formats/readers.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using std::chrono_literals::operator""s;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class TopE2eTest : public RecordingTest {
 protected:
  static constexpr const char* kSocketUrl = "http://profd";

  Ended curl(Args args, uid_t uid = 0) {
    args.insert(args.begin(),
                {"curl", "-s", "-S", "--fail-with-body", "--unix-socket", daemon_.socket()});
    const Process::Options as_user{
        .directory = {}, .uid = uid, .environment = {}, .before_exec = {}};
    return run(args, as_user);
  }
  // Takes from the session into a file.
  fs::path take(const std::string& id) {
    const fs::path file = directory_.path() / ("part-" + std::to_string(++parts_) + ".pb.gz");
    const Ended ended = curl({"-X", "POST", "-o", file, session_url(id) + "/take"});
    EXPECT_EQ(ended.status, 0) << ended.err;
    return file;
  }
  static std::string session_url(const std::string& id) {
    return std::string(kSocketUrl) + "/v1/sessions/" + id;
  }
  static std::uint64_t samples_of(const fs::path& file) {
    const auto profile = decode_pprof(slurp(file));
    EXPECT_TRUE(profile) << file;
    std::uint64_t samples = 0;
    for (std::size_t i = 0; profile && i < profile->samples().size(); ++i) {
      samples += static_cast<std::uint64_t>(profile->values(i).front());
    }
    return samples;
  }
  static SessionLedger ledger_of(const fs::path& file) {
    const auto protobuf = unpack_pprof(slurp(file));
    return parse_session_summary(*find_own_data(*protobuf)).value().ledger;
  }
  [[nodiscard]] Args top_command(const Args& options) const {
    Args command = daemon_.profctl_command({"--socket", daemon_.socket(), "top"});
    command.insert(command.end(), options.begin(), options.end());
    return command;
  }
  [[nodiscard]] std::vector<SessionInfo> sessions() const {
    return parse_session_list(daemon_.profctl({"list", "--json"}).out).value();
  }

  int parts_ = 0;
};

// Takes as fast as they are answered, while samples arrive.
TEST_F(TopE2eTest, TakesAndTheRestHaveEachSampleOfTheSession) {
  const Process busy({workload("shares"), "600"});
  const Ended started = daemon_.profctl({"start", "-p", std::to_string(busy.pid()), "-F", "999"});
  ASSERT_EQ(started.status, 0) << started.err;
  const std::string id = first_line(started.out);
  std::uint64_t samples = 0;
  std::uint64_t taken = 0;
  std::uint64_t lost = 0;
  for (int i = 0; i < 30; ++i) {
    const fs::path part = take(id);
    const SessionLedger ledger = ledger_of(part);
    EXPECT_EQ(ledger.difference(), 0);
    EXPECT_EQ(ledger.written, samples_of(part));
    samples += ledger.written;
    taken += ledger.taken;
    lost += sum_of(ledger.lost);
  }
  ASSERT_EQ(daemon_.profctl({"stop", id, "-o", output_}).status, 0);
  const SessionSummary rest = read_summary(output_);
  EXPECT_EQ(rest.ledger.difference(), 0);
  samples += rest.ledger.written;
  taken += rest.ledger.taken;
  EXPECT_GT(samples, 100U);
  EXPECT_EQ(taken, samples + lost + sum_of(rest.ledger.lost));
  EXPECT_EQ(daemon_.status().ledger.difference(), 0);
}

TEST_F(TopE2eTest, TheSessionCountsWhatWasTaken) {
  const Process busy({workload("shares"), "600"});
  const std::string id =
      first_line(daemon_.profctl({"start", "-p", std::to_string(busy.pid()), "-F", "499"}).out);
  std::uint64_t samples = 0;
  ASSERT_TRUE(eventually([&] { return (samples += samples_of(take(id))) > 200; }));
  const auto listed = sessions();
  ASSERT_THAT(listed, SizeIs(1));
  EXPECT_GE(listed[0].samples, samples);
  EXPECT_EQ(listed[0].state, "running");
  EXPECT_LT(fs::file_size(take(id)), 1U << 20);
}

TEST_F(TopE2eTest, APartHasTheFunctionsThatPprofShows) {
  const Process busy({workload("shares"), "600"});
  const std::string id =
      first_line(daemon_.profctl({"start", "-p", std::to_string(busy.pid()), "-F", "999"}).out);
  std::this_thread::sleep_for(2s);
  const Report pprof = named_report(take(id), "shares");
  EXPECT_NEAR(pprof.flat.at("hot_sixty"), 60, 10) << pprof.text;
}

TEST_F(TopE2eTest, AStrangerAndAnEndedSessionAreRefused) {
  const Process busy({workload("shares"), "600"});
  const std::string id =
      first_line(daemon_.profctl({"start", "-p", std::to_string(busy.pid())}).out);
  const Ended stranger = curl({"-X", "POST", session_url(id) + "/take"}, kNobody);
  EXPECT_NE(stranger.status, 0);
  EXPECT_THAT(stranger.out, HasSubstr("belongs to another user"));
  ASSERT_EQ(daemon_.profctl({"stop", id, "-o", output_}).status, 0);
  const Ended ended = curl({"-X", "POST", session_url(id) + "/take"});
  EXPECT_THAT(ended.out, AnyOf(HasSubstr("has ended"), HasSubstr("no session")));
}

TEST_F(TopE2eTest, ABatchHasTheSamplesOfTheSessionAndLeavesNone) {
  const Process busy({workload("shares"), "600"});
  const Ended ended = daemon_.profctl({"top", "-b", "-n", "3", "-d", "500ms", "-F", "499", "--json",
                                       "-p", std::to_string(busy.pid())});
  ASSERT_EQ(ended.status, 0) << ended.err;
  std::istringstream lines(ended.out);
  int refreshes = 0;
  for (std::string line; std::getline(lines, line); ++refreshes) {
    const json::value part = json::parse(line);
    const json::value& ledger = part.at("ledger");
    EXPECT_EQ(ledger.at("difference").as_int64(), 0);
    std::int64_t of_processes = 0;
    for (const json::value& process : part.at("processes").as_array()) {
      of_processes += process.at("samples").as_int64();
      EXPECT_EQ(process.at("comm").as_string(), "shares");
    }
    std::int64_t of_functions = 0;
    for (const auto& [name, sum] : test::row_sums(part.at("functions").at("rows"))) {
      of_functions += sum.self;
    }
    EXPECT_EQ(of_processes, ledger.at("written").as_int64());
    EXPECT_EQ(of_functions, ledger.at("written").as_int64());
    EXPECT_GT(of_processes, 0);
  }
  EXPECT_EQ(refreshes, 3);
  EXPECT_THAT(sessions(), SizeIs(0));
}

TEST_F(TopE2eTest, APipeIsLikeABatch) {
  const Process busy({workload("shares"), "600"});
  const std::string pid = std::to_string(busy.pid());
  const Ended ended = daemon_.profctl({"top", "-n1", "-d", "1s", "-p", pid});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out,
              AllOf(HasSubstr("shares"), HasSubstr("hot_sixty"), Not(HasSubstr("\x1b"))));
}

TEST_F(TopE2eTest, ATargetThatEndsIsShownToItsEnd) {
  Process busy({workload("shares"), "2"});
  const Ended ended =
      daemon_.profctl({"top", "-b", "-d", "700ms", "--json", "-p", std::to_string(busy.pid())});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_GE(std::ranges::count(ended.out, '\n'), 1);
  EXPECT_THAT(sessions(), SizeIs(0));
}

TEST_F(TopE2eTest, ASignalLeavesNoSession) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Process top(top_command({"-b", "-d", "200ms"}));
    ASSERT_TRUE(eventually([&] { return top.out().find("COMMAND") != std::string::npos; }))
        << signal << top.err();
    EXPECT_THAT(sessions(), SizeIs(1));
    top.signal(signal);
    EXPECT_EQ(top.wait().status, signal == SIGINT ? 0 : 128 + signal);
    EXPECT_THAT(sessions(), SizeIs(0));
  }
}

// A terminal of tmux, on a server of its own.
class Terminal {
 public:
  Terminal(int width, int height) {
    const Ended started = tmux({"-f", "/dev/null", "new-session", "-d", "-s", "t", "-x",
                                std::to_string(width), "-y", std::to_string(height), "sh"});
    EXPECT_EQ(started.status, 0) << started.err;
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() { (void)tmux({"kill-server"}); }

  void type(const std::string& text) { (void)tmux({"send-keys", "-t", "t", "-l", text}); }
  void press(const std::string& key) { (void)tmux({"send-keys", "-t", "t", key}); }
  void resize(int width, int height) {
    (void)tmux(
        {"resize-window", "-t", "t", "-x", std::to_string(width), "-y", std::to_string(height)});
  }
  std::vector<std::string> lines(bool with_colors = false) {
    Args args{"capture-pane", "-p", "-t", "t"};
    if (with_colors) args.emplace_back("-e");
    std::istringstream text(tmux(args).out);
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
  std::string text() {
    std::string text;
    for (const std::string& line : lines()) text += line + "\n";
    return text;
  }
  // Whether the text comes to the screen.
  bool shows(const std::string& expected) {
    return eventually([&] { return text().find(expected) != std::string::npos; });
  }

 private:
  Ended tmux(Args args) {
    args.insert(args.begin(), {"tmux", "-u", "-S", directory_.path() / "socket"});
    const Process::Options here{.directory = {},
                                .environment = {{"TERM", "xterm-256color"}, {"SHELL", "/bin/sh"}},
                                .before_exec = {}};
    return run(args, here);
  }

  TemporaryDirectory directory_;  // of its own, since a server that ends still has its socket
};

class TopTerminalTest : public TopE2eTest {
 protected:
  void open(int width, int height, const std::string& environment = "") {
    terminal_ = std::make_unique<Terminal>(width, height);
    std::string line = "clear; " + environment + " ";
    const std::string pid = std::to_string(busy_.pid());
    for (const std::string& word : top_command({"-d", "500ms", "-p", pid})) {
      line += word + " ";
    }
    terminal_->type(line + "; echo status $?");
    terminal_->press("Enter");
    ASSERT_TRUE(terminal_->shows("functions of")) << terminal_->text();
  }
  // The line of the selected process.
  std::string marked() {
    for (const std::string& line : terminal_->lines()) {
      if (line.starts_with(">")) return line;
    }
    return {};
  }

  const Process busy_{{workload("shares"), "600"}};
  std::unique_ptr<Terminal> terminal_;
};

TEST_F(TopTerminalTest, KeysSelectSortAndQuit) {
  open(100, 30);
  ASSERT_TRUE(terminal_->shows("hot_sixty")) << terminal_->text();
  EXPECT_TRUE(eventually([&] { return marked().find("all") != std::string::npos; }));
  terminal_->press("Down");
  EXPECT_TRUE(terminal_->shows("functions of shares")) << terminal_->text();
  EXPECT_THAT(marked(), HasSubstr(std::to_string(busy_.pid())));
  terminal_->press("N");
  EXPECT_TRUE(terminal_->shows("processes by pid"));
  EXPECT_THAT(marked(), HasSubstr("shares")) << "the selected one stays selected";
  terminal_->press("R");
  EXPECT_TRUE(terminal_->shows("by pid, reversed"));
  terminal_->press("Tab");
  terminal_->press("T");
  EXPECT_TRUE(terminal_->shows("functions by total"));
  terminal_->press("h");
  EXPECT_TRUE(terminal_->shows("Keys of profctl top"));
  terminal_->press("h");
  terminal_->press("Space");
  EXPECT_TRUE(terminal_->shows("PAUSED"));
  EXPECT_THAT(sessions(), SizeIs(1));
  terminal_->press("q");
  EXPECT_TRUE(terminal_->shows("status 0")) << terminal_->text();
  EXPECT_THAT(terminal_->text(), Not(HasSubstr("functions of"))) << "the screen is as before";
  EXPECT_THAT(sessions(), SizeIs(0));
}

TEST_F(TopTerminalTest, ItFitsANewSize) {
  open(120, 40);
  ASSERT_TRUE(terminal_->shows("OBJECT")) << terminal_->text();
  for (const auto& [width, height] : {std::pair(40, 12), std::pair(80, 24), std::pair(40, 24)}) {
    terminal_->resize(width, height);
    EXPECT_TRUE(eventually([&] {
      const std::string text = terminal_->text();
      return text.find("profctl top") == 0 && text.find("functions of") != std::string::npos;
    })) << terminal_->text();
  }
  EXPECT_TRUE(terminal_->shows("hot_sixty")) << terminal_->text();
  EXPECT_THAT(terminal_->text(), Not(HasSubstr("OBJECT"))) << "too narrow";
}

TEST_F(TopTerminalTest, WithoutColourWhereTheUserWantsNone) {
  open(100, 30, "NO_COLOR=1");
  ASSERT_TRUE(terminal_->shows("hot_sixty"));
  EXPECT_THAT(terminal_->lines(true), Each(Not(HasSubstr("\x1b["))));
  terminal_->press("q");
  ASSERT_TRUE(terminal_->shows("status 0"));
  terminal_.reset();
  open(100, 30);
  ASSERT_TRUE(terminal_->shows("hot_sixty"));
  EXPECT_THAT(terminal_->lines(true), Contains(HasSubstr("\x1b[")));
}

TEST_F(TopTerminalTest, CtrlCEndsItAndItsSession) {
  open(80, 24);
  terminal_->press("C-c");
  EXPECT_TRUE(terminal_->shows("status 0")) << terminal_->text();
  EXPECT_THAT(sessions(), SizeIs(0));
}

TEST_F(TopTerminalTest, APipeOfATerminalHasPlainText) {
  terminal_ = std::make_unique<Terminal>(100, 50);
  std::string line;
  const std::string pid = std::to_string(busy_.pid());
  for (const std::string& word : top_command({"-n1", "-d", "1s", "-p", pid})) line += word + " ";
  terminal_->type(line + "| cat");
  terminal_->press("Enter");
  EXPECT_TRUE(terminal_->shows("hot_sixty")) << terminal_->text();
  EXPECT_THAT(terminal_->text(), HasSubstr(" CPU, "));
}

}  // namespace
}  // namespace profd::e2e
