// The README's "Use" section as a new user walks it: every command that stands there is run, in its
// order, with this host's pids and programs in place of the example's. A command that the walk does
// not know fails it.

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>

#include "tests/e2e/harness.h"

namespace profd::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

// The indented lines of a section, without their comments, as words.
std::vector<Args> commands_of_section(const std::string& heading) {
  std::ifstream readme(README_PATH);
  std::vector<Args> commands;
  bool inside = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("## ")) inside = line == heading;
    if (!inside || !line.starts_with("    ")) continue;
    std::istringstream text(line.substr(0, line.find(" # ")));
    Args words;
    for (std::string word; text >> word;) words.push_back(word);
    commands.push_back(words);
  }
  return commands;
}

class Walk {
 public:
  Ended take(Args command) {
    for (std::string& word : command) word = here(word);
    if (command[0] == "profctl") return profctl(command);
    if (command[0] == "go") {
      return run({GO_PPROF_BINARY, "-symbolize=none", "-top", command.back()});
    }
    if (command[0] == "pprof") return run({GO_PPROF_BINARY, "-top", command.back()});
    if (command[0] == "google-pprof") return run(command);
    ADD_FAILURE() << "the walk does not know " << command[0];
    return {};
  }

 private:
  // What an example's word means on this host.
  std::string here(const std::string& word) {
    if (word == "1234") return std::to_string(busy_.pid());
    if (word == "4f0c2a19") return session_;
    if (word == "nginx") return "shares";
    if (word == "out/server.pb.gz") return output_ = directory_.path() / "server.pb.gz";
    if (word == "./server") return workload("shares");
    if (word == "--port") return "1";
    if (word == "80") return "1";
    if (word == "/usr/sbin/nginx") return workload("shares");
    if (word == "10s" || word == "30s") return "2s";
    if (word.starts_with("out/nginx/")) return profile_of_busy();
    if (word.starts_with("out/")) return output_ = directory_.path() / word;
    return word;
  }

  std::string profile_of_busy() const {
    return output_with_shares_ / ("shares." + std::to_string(busy_.pid()) + ".prof");
  }

  // It serves until a signal ends it.
  Ended web() const {
    Process server(daemon_.profctl_command({"--socket", daemon_.socket(), "web", "--port", "0"}));
    EXPECT_TRUE(eventually([&] { return server.out().ends_with("\n"); }));
    EXPECT_THAT(server.out(), StartsWith("http://127.0.0.1:"));
    server.signal(SIGINT);
    return server.wait();
  }

  Ended profctl(const Args& command) {
    if (command[1] == "web") return web();
    if (command[1] == "top") return daemon_.profctl({"top", "-n1", "-d", "500ms"});  // a pipe
    const Ended ended = daemon_.profctl(Args(command.begin() + 1, command.end()));
    if (command[1] == "start") {
      session_ = ended.out.substr(0, ended.out.find('\n'));
      EXPECT_TRUE(eventually([this] { return daemon_.status().received > 20; }));
    } else if (output_.extension() != ".gz" && output_.extension() != ".html") {
      EXPECT_EQ(read_summary(output_).ledger.difference(), 0);
    }
    if (std::ranges::find(command, "-n") != command.end()) output_with_shares_ = output_;
    return ended;
  }

  Daemon daemon_;
  TemporaryDirectory directory_;
  Process busy_{{workload("shares"), "600"}};
  std::string session_;
  std::filesystem::path output_;
  std::filesystem::path output_with_shares_;
};

TEST(ReadmeTest, EveryCommandOfTheUseSectionWorks) {
  const std::vector<Args> commands = commands_of_section("## Use");
  ASSERT_THAT(commands, SizeIs(::testing::Ge(8u)));
  Walk walk;
  for (const Args& command : commands) {
    // The build, profd in the walk, and where both are found.
    if (command[0] == "make" || command[0] == "build/profd" || command[0] == "export") continue;
    const Ended ended = walk.take(command);
    EXPECT_EQ(ended.status, 0) << ::testing::PrintToString(command) << "\n" << ended.err;
  }
}

TEST(ReadmeTest, TheDemoNamesTheHotFunctionsAndLeavesNothingBehind) {
  const TemporaryDirectory temporary;
  Process::Options options;
  options.directory = SOURCE_DIRECTORY;
  options.environment["TMPDIR"] = temporary.path();
  const Ended demo = run({"sh", DEMO_PATH, BUILD_DIRECTORY}, options);
  EXPECT_EQ(demo.status, 0) << demo.err;
  for (const char* text : {"hot_sixty", "read_zero", "brief_work", ".prof", "flame graph"}) {
    EXPECT_THAT(demo.out, HasSubstr(text));
  }
  EXPECT_TRUE(std::filesystem::is_empty(temporary.path()));
  EXPECT_EQ(run({"pgrep", "-f", temporary.path()}).out, "");
  EXPECT_EQ(run({"pgrep", "-f", "/workloads/(shares 60 2|reader 60|family 60 storm)"}).out, "");
}

}  // namespace
}  // namespace profd::e2e
