// `profctl web --open` with an xdg-open of the test's own, which writes down what it got.

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>

#include "tests/e2e/harness.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

// The line with the blocked signals of a process.
std::string blocked_signals(const std::string& status) {
  const std::size_t start = status.find("SigBlk:");
  return start == std::string::npos ? "" : first_line(status.substr(start));
}

class WebOpenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const fs::path& one : {programs_, opened_, temporary_}) fs::create_directories(one);
    std::ofstream(source_) << "main;work 5\n";
  }

  // What it writes last is complete at once.
  void make_xdg_open() const {
    const fs::path program = programs_ / "xdg-open";
    std::ofstream(program) << "#!/bin/sh\n"
                              "cp -p \"$1\" \"$OPENED/page\"\n"
                              "cat /proc/self/status >\"$OPENED/status\"\n"
                              "printf '%s\\n' \"$@\" >\"$OPENED/unfinished\"\n"
                              "mv \"$OPENED/unfinished\" \"$OPENED/arguments\"\n";
    fs::permissions(program, fs::perms(0755));
  }

  [[nodiscard]] Process::Options with_programs_in(const std::string& path) const {
    Process::Options options;
    options.environment["PATH"] = path;
    options.environment["OPENED"] = opened_.string();
    options.environment["TMPDIR"] = temporary_.string();
    options.environment["PROFD_SOCKET"] = (scratch_.path() / "no-socket").string();
    return options;
  }
  [[nodiscard]] Args command() const {
    return {PROFCTL_BINARY, "web", source_.string(), "--port", "0", "--open"};
  }
  static std::string url_of(const Process& web) {
    EXPECT_TRUE(eventually([&web] { return web.out().find('\n') != std::string::npos; }));
    return first_line(web.out());
  }

  TemporaryDirectory scratch_;
  const fs::path programs_ = scratch_.path() / "bin";
  const fs::path opened_ = scratch_.path() / "opened";
  const fs::path temporary_ = scratch_.path() / "tmp";
  const fs::path source_ = scratch_.path() / "a.folded";
};

// All users can read the arguments of a program, so the token is in a file of the caller's.
TEST_F(WebOpenTest, TheBrowserGetsAFileThatLeadsToThePage) {
  make_xdg_open();
  const char* const path = std::getenv("PATH");
  const std::string others = path == nullptr ? "/usr/bin:/bin" : path;
  Process web(command(), with_programs_in(programs_.string() + ":" + others));
  const std::string url = url_of(web);
  ASSERT_THAT(url, MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+/\\?token=[0-9a-f]+"));
  ASSERT_TRUE(eventually([this] { return fs::exists(opened_ / "arguments"); })) << web.err();

  const std::string arguments = slurp(opened_ / "arguments");
  const fs::path link = first_line(arguments);
  EXPECT_EQ(arguments, link.string() + "\n");  // one argument
  EXPECT_EQ(link.parent_path().string(), temporary_.string());
  EXPECT_EQ(link.extension().string(), ".html");
  EXPECT_THAT(arguments, Not(HasSubstr(url.substr(url.find("token=") + 6))));
  const std::string page = slurp(opened_ / "page");
  EXPECT_THAT(page, HasSubstr("http-equiv=\"refresh\" content=\"0;url=" + url + "\""));
  EXPECT_THAT(page, HasSubstr("href=\"" + url + "\""));
  EXPECT_TRUE(fs::status(opened_ / "page").permissions() == fs::perms(0600));
  // A browser that has the signals of profctl blocked could not be ended by them.
  EXPECT_THAT(blocked_signals(slurp(opened_ / "status")), StartsWith("SigBlk:"));
  EXPECT_EQ(blocked_signals(slurp(opened_ / "status")),
            blocked_signals(slurp("/proc/self/status")));

  web.signal(SIGINT);
  const Ended ended = web.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_FALSE(fs::exists(link));
}

TEST_F(WebOpenTest, WithoutABrowserTheAddressIsStillPrinted) {
  Process web(command(), with_programs_in(programs_.string()));
  EXPECT_THAT(url_of(web), StartsWith("http://127.0.0.1:"));
  EXPECT_TRUE(eventually([&web] { return web.err().find("hint: ") != std::string::npos; }));
  EXPECT_THAT(web.err(), HasSubstr("could not start xdg-open"));
  EXPECT_THAT(web.err(), HasSubstr("hint: open the address that is printed in a browser"));
  EXPECT_TRUE(web.running());
  web.signal(SIGTERM);
  EXPECT_EQ(web.wait().status, 128 + SIGTERM);
  EXPECT_TRUE(fs::is_empty(temporary_));
}

}  // namespace
}  // namespace profd::e2e
